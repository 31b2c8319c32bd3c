// Package peer holds what our Go programs share: the command line, the events, the order of steps.
package peer

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options is the command line: BOOTSTRAP STEPS name=value …
type Options struct {
	Bootstrap string
	Steps     []string
	values    map[string]string
}

// Fields are the contents of an event.
type Fields map[string]any

// Step is one thing a peer does.
type Step func() error

var output sync.Mutex

// Parse reads the command line.
func Parse() *Options {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: BOOTSTRAP STEPS name=value …")
		os.Exit(2)
	}
	options := &Options{os.Args[1], strings.Split(os.Args[2], ","), map[string]string{}}
	for _, pair := range os.Args[3:] {
		name, value, _ := strings.Cut(pair, "=")
		options.values[name] = value
	}
	return options
}

// Text is the value of an option, or the fallback.
func (o *Options) Text(name, fallback string) string {
	if value, found := o.values[name]; found {
		return value
	}
	return fallback
}

// Number is the value of an option as a number, or the fallback.
func (o *Options) Number(name string, fallback int) int {
	value, err := strconv.Atoi(o.Text(name, strconv.Itoa(fallback)))
	if err != nil {
		panic(fmt.Sprintf("option %s is not a number", name))
	}
	return value
}

// Topic is the topic to work on.
func (o *Options) Topic() string { return o.Text("topic", "events") }

// Group is the group to work in.
func (o *Options) Group() string { return o.Text("group", "readers") }

// TLS trusts the authority of the option ca; nil without it.
func (o *Options) TLS() *tls.Config {
	path := o.Text("ca", "")
	if path == "" {
		return nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: trusted}
	if own := o.Text("certificate", ""); own != "" {
		pair, err := tls.LoadX509KeyPair(own, own)
		if err != nil {
			panic(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// Mechanism is that of the log-in; "none" for TLS without one.
func (o *Options) Mechanism() string {
	return o.Text("mechanism", "SCRAM-SHA-256")
}

// Token is the content of the file that the option token names.
func (o *Options) Token() string {
	text, err := os.ReadFile(o.Text("token", ""))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Emit prints one event as a JSON line.
func Emit(event string, fields Fields) {
	line := Fields{"event": event}
	for name, value := range fields {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

// Stopped is closed when a line (or the end) arrives on standard input; "die" ends the process at once.
func Stopped() <-chan struct{} {
	stop := make(chan struct{})
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		if strings.TrimSpace(line) == "die" {
			os.Exit(0)
		}
		close(stop)
	}()
	return stop
}

// Settled asks until the answer is yes, for ten seconds at most: a broker may act a moment after it said so.
func Settled(what string, check func() (bool, error)) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		yes, err := check()
		if yes && err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not happen: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Run does the named steps in order and ends the process: 0 after the event "done", 1 after an "error".
func Run(options *Options, steps map[string]Step) {
	for _, name := range options.Steps {
		step, found := steps[name]
		if !found {
			Emit("error", Fields{"step": name, "message": "no such step"})
			os.Exit(1)
		}
		if err := step(); err != nil {
			Emit("error", Fields{"step": name, "message": err.Error()})
			os.Exit(1)
		}
	}
	Emit("done", nil)
	os.Exit(0)
}
