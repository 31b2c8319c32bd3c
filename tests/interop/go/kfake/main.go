// A fake Kafka cluster of one broker: prints its address and runs until standard input ends.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println("kfake: listening on " + cluster.ListenAddrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
}
