// Load sends prepared Kafka requests as fast as a broker answers them, on one core.
//
// It reads a plan (JSON) from its standard input: for each connection the bytes of a request and of the reply that is
// expected, both without the correlation id. It writes one line of JSON: how many requests were answered, how long they
// took, and how much processor time the broker used meanwhile. A reply that differs from the expected one is counted.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// A frame is a size (4 bytes) and a message. The correlation id follows the API key and its version in a request; it is
// the first field of a reply.
const (
	requestID = 8
	replyID   = 4
	idSize    = 4
)

type plan struct {
	Address     string     `json:"address"`
	Pid         int        `json:"pid"`       // of the broker
	Authority   string     `json:"authority"` // a PEM file: with it, connections use TLS
	Depth       int        `json:"depth"`     // requests in flight on each connection
	Warm        float64    `json:"warm"`      // seconds before the measurement begins
	Seconds     float64    `json:"seconds"`
	Connections []exchange `json:"connections"`
}

// exchange is what one connection sends and gets, whole frames in hexadecimal digits.
type exchange struct {
	Request string `json:"request"`
	Reply   string `json:"reply"`
}

type result struct {
	Requests         int     `json:"requests"`
	Seconds          float64 `json:"seconds"`
	ProcessorSeconds float64 `json:"processor_seconds"`
	P50              float64 `json:"p50_ms"`
	P99              float64 `json:"p99_ms"`
	P999             float64 `json:"p999_ms"`
	Errors           int     `json:"errors"`
	FirstError       string  `json:"first_error"`
}

// client keeps depth requests in flight on one connection. The times of requests in flight lie in a ring, oldest first:
// replies come in the order of the requests.
type client struct {
	connection net.Conn
	replies    *bufio.Reader
	request    []byte
	expected   []byte
	sentAt     []time.Time
	latencies  []time.Duration
	answered   int
	errors     int
	firstError string
}

// dial connects to the broker, with TLS if there is an authority to trust.
func dial(address, authority string) (net.Conn, error) {
	if authority == "" {
		return net.Dial("tcp", address)
	}
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	return tls.Dial("tcp", address, &tls.Config{RootCAs: trusted, ServerName: "localhost"})
}

func newClient(address, authority string, depth int, what exchange) (*client, error) {
	request, err := hex.DecodeString(what.Request)
	if err != nil {
		return nil, err
	}
	expected, err := hex.DecodeString(what.Reply)
	if err != nil {
		return nil, err
	}
	connection, err := dial(address, authority)
	if err != nil {
		return nil, err
	}
	return &client{
		connection: connection,
		replies:    bufio.NewReaderSize(connection, 64*1024),
		request:    request,
		expected:   expected,
		sentAt:     make([]time.Time, depth),
		latencies:  make([]time.Duration, 0, 1<<14),
	}, nil
}

// run sends and receives until stop. Replies that come between start and stop count for the rate. The latency of each
// request that was sent between them counts, also if its reply comes later: else a broker that stalls looks fast.
func (c *client) run(start, stop time.Time) error {
	depth := len(c.sentAt)
	out := make([]byte, 0, depth*len(c.request))
	reply := make([]byte, len(c.expected))
	sent, answered := 0, 0
	for wanted := depth; ; {
		out = out[:0] // stays empty after stop: then only the replies that are on their way are read
		now := time.Now()
		for range wanted {
			at := len(out)
			out = append(out, c.request...)
			binary.BigEndian.PutUint32(out[at+requestID:], uint32(sent))
			c.sentAt[sent%depth] = now
			sent++
		}
		if len(out) > 0 {
			if _, err := c.connection.Write(out); err != nil {
				return err
			}
		}
		wanted = 0
		// Wait for one reply, then take those that have come with it.
		for wanted == 0 || c.replies.Buffered() >= len(c.expected) {
			if _, err := io.ReadFull(c.replies, reply); err != nil {
				return fmt.Errorf("after %d replies: %w", answered, err)
			}
			c.check(reply, uint32(answered))
			now = time.Now()
			if at := c.sentAt[answered%depth]; at.After(start) {
				c.latencies = append(c.latencies, now.Sub(at))
			}
			if now.After(start) && now.Before(stop) {
				c.answered++
			}
			answered++
			wanted++
		}
		if now.After(stop) {
			if answered == sent {
				return nil
			}
			wanted = 0
		}
	}
}

// check compares a reply with the expected one. One of another size makes the replies after it wrong, too.
func (c *client) check(reply []byte, id uint32) {
	same := binary.BigEndian.Uint32(reply[replyID:]) == id &&
		bytes.Equal(reply[:replyID], c.expected[:replyID]) &&
		bytes.Equal(reply[replyID+idSize:], c.expected[replyID+idSize:])
	if !same {
		if c.errors == 0 {
			c.firstError = hex.EncodeToString(reply)
		}
		c.errors++
	}
}

// processorSeconds is what a process has used up to now, with all its threads.
func processorSeconds(pid int) (float64, error) {
	const ticks = 100 // USER_HZ: what Linux shows to programs
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var user, system int
	if _, err := fmt.Sscan(string(fields[11])+" "+string(fields[12]), &user, &system); err != nil {
		return 0, err
	}
	return float64(user+system) / ticks, nil
}

func measure(p plan) (result, error) {
	clients := make([]*client, len(p.Connections))
	for i, what := range p.Connections {
		var err error
		if clients[i], err = newClient(p.Address, p.Authority, p.Depth, what); err != nil {
			return result{}, err
		}
	}
	start := time.Now().Add(time.Duration(p.Warm * float64(time.Second)))
	stop := start.Add(time.Duration(p.Seconds * float64(time.Second)))
	failures := make([]error, len(clients))
	var running sync.WaitGroup
	for i, c := range clients {
		running.Go(func() { failures[i] = c.run(start, stop) })
	}
	time.Sleep(time.Until(start))
	before, err := processorSeconds(p.Pid)
	if err != nil {
		return result{}, err
	}
	started := time.Now()
	time.Sleep(time.Until(stop))
	after, err := processorSeconds(p.Pid)
	if err != nil {
		return result{}, err
	}
	elapsed := time.Since(started)
	running.Wait()
	found := result{Seconds: elapsed.Seconds(), ProcessorSeconds: after - before}
	var latencies []time.Duration
	for i, c := range clients {
		if failures[i] != nil {
			return result{}, fmt.Errorf("connection %d: %w", i, failures[i])
		}
		latencies = append(latencies, c.latencies...)
		found.Requests += c.answered
		found.Errors += c.errors
		if found.FirstError == "" {
			found.FirstError = c.firstError
		}
	}
	if len(latencies) > 0 {
		slices.Sort(latencies)
		at := func(share float64) float64 {
			return latencies[int(share*float64(len(latencies)))].Seconds() * 1e3
		}
		found.P50, found.P99, found.P999 = at(0.5), at(0.99), at(0.999)
	}
	return found, nil
}

func main() {
	log.SetFlags(0)
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	var p plan
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		log.Fatalf("load: the plan cannot be read: %v", err)
	}
	found, err := measure(p)
	if err != nil {
		log.Fatalf("load: %v", err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatalf("load: %v", err)
	}
}
