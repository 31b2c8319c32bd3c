// sarama as a peer: runs the named steps in order, one JSON line per event.
package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"kohort/interop/peer"
)

type sailor struct {
	options *peer.Options
	topic   string
	client  sarama.Client
	admin   sarama.ClusterAdmin
}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func (s *sailor) config() *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = s.options.Text("client", "sarama-peer")
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 20 * time.Millisecond // a commit waits behind a fetch: both use one connection
	config.Metadata.RefreshFrequency = time.Second
	if tls := s.options.TLS(); tls != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, tls
		s.logIn(config)
	}
	return config
}

func (s *sailor) messages(count int, fill func(i int, message *sarama.ProducerMessage)) []*sarama.ProducerMessage {
	all := make([]*sarama.ProducerMessage, count)
	for i := range all {
		all[i] = &sarama.ProducerMessage{Topic: s.topic}
		fill(i, all[i])
	}
	return all
}

func (s *sailor) send(config *sarama.Config, messages []*sarama.ProducerMessage) error {
	producer, err := sarama.NewSyncProducer([]string{s.options.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	err = producer.SendMessages(messages)
	var refused sarama.ProducerErrors
	if errors.As(err, &refused) && len(refused) > 0 {
		return refused[0].Err // the error of all of them names no reason
	}
	return err
}

func (s *sailor) produce() error {
	for _, codec := range strings.Split(s.options.Text("codecs", "none,gzip,snappy,lz4,zstd"), ",") {
		config := s.config()
		config.Producer.Compression = codecs[codec]
		messages := s.messages(s.options.Number("count", 3), func(i int, message *sarama.ProducerMessage) {
			message.Key = sarama.StringEncoder(codec + "-key")
			message.Value = sarama.StringEncoder(fmt.Sprintf("%s-%d", codec, i))
			message.Headers = []sarama.RecordHeader{{Key: []byte("codec"), Value: []byte(codec)}}
		})
		if err := s.send(config, messages); err != nil {
			return err
		}
		offsets := []int64{}
		for _, message := range messages {
			offsets = append(offsets, message.Offset)
		}
		peer.Emit("produced", peer.Fields{"codec": codec, "offsets": offsets})
	}
	return nil
}

func (s *sailor) spread() error {
	partitions, err := s.partitions()
	if err != nil {
		return err
	}
	count := s.options.Number("count", 30)
	messages := s.messages(count, func(i int, message *sarama.ProducerMessage) {
		message.Partition = int32(i % partitions)
		message.Key = sarama.StringEncoder(fmt.Sprintf("k%d", i))
		message.Value = sarama.StringEncoder(fmt.Sprintf("v%d", i))
	})
	if err := s.send(s.config(), messages); err != nil {
		return err
	}
	peer.Emit("spread", peer.Fields{"count": count})
	return nil
}

func show(message *sarama.ConsumerMessage) {
	fields := peer.Fields{
		"partition": message.Partition, "offset": message.Offset,
		"key": string(message.Key), "value": string(message.Value), "header": nil,
	}
	for _, header := range message.Headers {
		if string(header.Key) == "codec" {
			fields["header"] = string(header.Value)
		}
	}
	peer.Emit("record", fields)
}

func (s *sailor) fetch() error {
	consumer, err := sarama.NewConsumerFromClient(s.client)
	if err != nil {
		return err
	}
	partition, err := consumer.ConsumePartition(s.topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	enough := time.After(time.Duration(s.options.Number("idle", 15000)) * time.Millisecond)
	seen, wanted := 0, s.options.Number("records", 15)
	for seen < wanted {
		select {
		case message := <-partition.Messages():
			show(message)
			seen++
		case <-enough:
			wanted = seen
		}
	}
	peer.Emit("fetched", peer.Fields{"count": seen})
	return partition.Close()
}

func main() {
	options := peer.Parse()
	s := &sailor{options: options, topic: options.Topic()}
	var err error
	if s.client, err = sarama.NewClient([]string{options.Bootstrap}, s.config()); err == nil {
		s.admin, err = sarama.NewClusterAdminFromClient(s.client)
	}
	if err != nil {
		peer.Run(options, map[string]peer.Step{options.Steps[0]: func() error { return err }})
	}
	peer.Run(options, map[string]peer.Step{
		"connect": s.connect, "create": s.create, "list": s.list, "describe": s.describe, "configs": s.configs,
		"grow": s.grow, "offsets": s.offsets, "truncate": s.truncate, "groups": s.groups, "committed": s.committed,
		"forget": s.forget, "delete": s.remove, "produce": s.produce, "spread": s.spread, "fetch": s.fetch,
		"group": s.group,
	})
}
