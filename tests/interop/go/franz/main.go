// franz-go as a peer: runs the named steps in order, one JSON line per event.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"kohort/interop/peer"
)

type franz struct {
	ctx     context.Context
	options *peer.Options
	topic   string
	client  *kgo.Client
	admin   *kadm.Client
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (f *franz) connection(more ...kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{
		kgo.SeedBrokers(f.options.Bootstrap),
		kgo.ClientID(f.options.Text("client", "franz-peer")),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}
	if config := f.options.TLS(); config != nil {
		common = append(common, kgo.DialTLSConfig(config))
		user, password := f.options.Text("user", ""), f.options.Text("password", "")
		switch f.options.Mechanism() {
		case "SCRAM-SHA-256":
			common = append(common, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			common = append(common, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
		case "PLAIN":
			common = append(common, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
		case "OAUTHBEARER":
			common = append(common, kgo.SASL(oauth.Auth{Token: f.options.Token()}.AsMechanism()))
		}
	}
	return kgo.NewClient(append(common, more...)...)
}

func (f *franz) produce() error {
	for _, codec := range strings.Split(f.options.Text("codecs", "none,gzip,snappy,lz4,zstd"), ",") {
		client, err := f.connection(kgo.ProducerBatchCompression(codecs[codec]))
		if err != nil {
			return err
		}
		records := make([]*kgo.Record, f.options.Number("count", 3))
		for i := range records {
			records[i] = &kgo.Record{
				Topic: f.topic, Key: []byte(codec + "-key"), Value: []byte(fmt.Sprintf("%s-%d", codec, i)),
				Headers: []kgo.RecordHeader{{Key: "codec", Value: []byte(codec)}},
			}
		}
		results := client.ProduceSync(f.ctx, records...)
		client.Close()
		if err := results.FirstErr(); err != nil {
			return err
		}
		offsets := []int64{}
		for _, record := range records {
			offsets = append(offsets, record.Offset)
		}
		peer.Emit("produced", peer.Fields{"codec": codec, "offsets": offsets})
	}
	return nil
}

func (f *franz) spread() error {
	total, err := f.partitions()
	if err != nil {
		return err
	}
	count := f.options.Number("count", 30)
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = &kgo.Record{
			Topic: f.topic, Partition: int32(i % total),
			Key: []byte(fmt.Sprintf("k%d", i)), Value: []byte(fmt.Sprintf("v%d", i)),
		}
	}
	if err := f.client.ProduceSync(f.ctx, records...).FirstErr(); err != nil {
		return err
	}
	peer.Emit("spread", peer.Fields{"count": count})
	return nil
}

func show(record *kgo.Record) {
	fields := peer.Fields{
		"partition": record.Partition, "offset": record.Offset,
		"key": string(record.Key), "value": string(record.Value), "header": nil,
	}
	for _, header := range record.Headers {
		if header.Key == "codec" {
			fields["header"] = string(header.Value)
		}
	}
	peer.Emit("record", fields)
}

func (f *franz) fetch() error {
	start := map[string]map[int32]kgo.Offset{f.topic: {0: kgo.NewOffset().AtStart()}}
	client, err := f.connection(kgo.ConsumePartitions(start))
	if err != nil {
		return err
	}
	defer client.Close()
	idle := time.Duration(f.options.Number("idle", 15000)) * time.Millisecond
	ctx, cancel := context.WithTimeout(f.ctx, idle)
	defer cancel()
	seen := 0
	for seen < f.options.Number("records", 15) && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachRecord(func(record *kgo.Record) {
			show(record)
			seen++
		})
	}
	peer.Emit("fetched", peer.Fields{"count": seen})
	return nil
}

func main() {
	options := peer.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	f := &franz{ctx: ctx, options: options, topic: options.Topic()}
	client, err := f.connection()
	if err != nil {
		panic(err)
	}
	f.client, f.admin = client, kadm.NewClient(client)
	peer.Run(options, map[string]peer.Step{
		"connect": f.connect, "create": f.create, "list": f.list, "describe": f.describe, "configs": f.configs,
		"grow": f.grow, "offsets": f.offsets, "truncate": f.truncate, "groups": f.groups, "committed": f.committed,
		"forget": f.forget, "delete": f.remove, "produce": f.produce, "spread": f.spread, "fetch": f.fetch,
		"group": f.group,
	})
}
