package main

import (
	"errors"
	"fmt"
	"sort"

	"github.com/IBM/sarama"

	"kohort/interop/peer"
)

const retention = "retention.ms"

func (s *sailor) connect() error {
	brokers, controller, err := s.admin.DescribeCluster()
	if err != nil {
		return err
	}
	ids := []int32{}
	for _, broker := range brokers {
		ids = append(ids, broker.ID())
	}
	peer.Emit("connected", peer.Fields{"brokers": ids, "controller": controller})
	return nil
}

func (s *sailor) create() error {
	value := "60000000"
	detail := &sarama.TopicDetail{
		NumPartitions: int32(s.options.Number("partitions", 3)), ReplicationFactor: 1,
		ConfigEntries: map[string]*string{retention: &value},
	}
	if err := s.admin.CreateTopic(s.topic, detail, false); err != nil {
		return err
	}
	peer.Emit("created", peer.Fields{"topic": s.topic, "partitions": detail.NumPartitions})
	if err := s.admin.CreateTopic(s.topic, detail, false); errors.Is(err, sarama.ErrTopicAlreadyExists) {
		peer.Emit("refused", peer.Fields{"what": "create", "error": "ErrTopicAlreadyExists"})
	}
	return nil
}

func (s *sailor) list() error {
	topics, err := s.admin.ListTopics()
	if err != nil {
		return err
	}
	names := []string{}
	for name := range topics {
		names = append(names, name)
	}
	sort.Strings(names)
	peer.Emit("topics", peer.Fields{"names": names})
	return nil
}

func (s *sailor) partitions() (int, error) {
	found, err := s.admin.DescribeTopics([]string{s.topic})
	if err != nil {
		return 0, err
	}
	if found[0].Err != sarama.ErrNoError {
		return 0, found[0].Err
	}
	return len(found[0].Partitions), nil
}

func (s *sailor) describe() error {
	count, err := s.partitions()
	if err != nil {
		return err
	}
	peer.Emit("described", peer.Fields{"topic": s.topic, "partitions": count})
	return nil
}

func (s *sailor) showRetention() error {
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: s.topic, ConfigNames: []string{retention}}
	entries, err := s.admin.DescribeConfig(resource)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		peer.Emit("config", peer.Fields{"name": entry.Name, "value": entry.Value})
	}
	return nil
}

func (s *sailor) configs() error {
	if err := s.showRetention(); err != nil {
		return err
	}
	value := "70000000"
	change := map[string]sarama.IncrementalAlterConfigsEntry{
		retention: {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
	}
	if err := s.admin.IncrementalAlterConfig(sarama.TopicResource, s.topic, change, false); err != nil {
		return err
	}
	return s.showRetention()
}

func (s *sailor) grow() error {
	if err := s.admin.CreatePartitions(s.topic, int32(s.options.Number("partitions", 3)+1), nil, false); err != nil {
		return err
	}
	count, err := s.partitions()
	peer.Emit("grown", peer.Fields{"partitions": count})
	return err
}

func (s *sailor) offsets() error {
	earliest, err := s.client.GetOffset(s.topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	latest, err := s.client.GetOffset(s.topic, 0, sarama.OffsetNewest)
	peer.Emit("offsets", peer.Fields{"earliest": earliest, "latest": latest})
	return err
}

func (s *sailor) truncate() error {
	if err := s.admin.DeleteRecords(s.topic, map[int32]int64{0: 1}); err != nil {
		return err
	}
	low, err := s.client.GetOffset(s.topic, 0, sarama.OffsetOldest)
	peer.Emit("truncated", peer.Fields{"low": low})
	return err
}

func (s *sailor) groups() error {
	listed, err := s.admin.ListConsumerGroups()
	if err != nil {
		return err
	}
	ids := []string{}
	for id := range listed {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	peer.Emit("groups", peer.Fields{"ids": ids})
	described, err := s.admin.DescribeConsumerGroups([]string{s.options.Group()})
	if err != nil {
		return err
	}
	group := described[0]
	peer.Emit("group", peer.Fields{"id": group.GroupId, "state": group.State, "members": len(group.Members)})
	return nil
}

func (s *sailor) committed() error {
	found, err := s.admin.ListConsumerGroupOffsets(s.options.Group(), nil)
	if err != nil {
		return err
	}
	offsets := map[string]int64{}
	for topic, partitions := range found.Blocks {
		for id, block := range partitions {
			offsets[fmt.Sprintf("%s-%d", topic, id)] = block.Offset
		}
	}
	peer.Emit("committed", peer.Fields{"offsets": offsets})
	return nil
}

func (s *sailor) forget() error {
	if err := s.admin.DeleteConsumerGroup(s.options.Group()); err != nil {
		return err
	}
	peer.Emit("group-deleted", peer.Fields{"id": s.options.Group()})
	return nil
}

func (s *sailor) remove() error {
	if err := s.admin.DeleteTopic(s.topic); err != nil {
		return err
	}
	peer.Emit("deleted", peer.Fields{"topic": s.topic})
	return nil
}
