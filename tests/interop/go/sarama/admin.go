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
	if err := peer.Settled("creation", s.has(int(detail.NumPartitions))); err != nil {
		return err
	}
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

func (s *sailor) has(total int) func() (bool, error) {
	return func() (bool, error) {
		count, err := s.partitions()
		return count == total, err
	}
}

func (s *sailor) describe() error {
	count, err := s.partitions()
	if err != nil {
		return err
	}
	peer.Emit("described", peer.Fields{"topic": s.topic, "partitions": count})
	return nil
}

func (s *sailor) showRetention(wanted string) error {
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: s.topic, ConfigNames: []string{retention}}
	err := peer.Settled("a change of "+retention, func() (bool, error) {
		entries, err := s.admin.DescribeConfig(resource)
		return err == nil && len(entries) == 1 && entries[0].Value == wanted, err
	})
	if err == nil {
		peer.Emit("config", peer.Fields{"name": retention, "value": wanted})
	}
	return err
}

func (s *sailor) configs() error {
	if err := s.showRetention("60000000"); err != nil {
		return err
	}
	value := "70000000"
	change := map[string]sarama.IncrementalAlterConfigsEntry{
		retention: {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
	}
	if err := s.admin.IncrementalAlterConfig(sarama.TopicResource, s.topic, change, false); err != nil {
		return err
	}
	return s.showRetention("70000000")
}

func (s *sailor) grow() error {
	total := s.options.Number("partitions", 3) + 1
	err := s.admin.CreatePartitions(s.topic, int32(total), nil, false)
	if err == nil {
		err = peer.Settled("growth", s.has(total))
	}
	if err == nil {
		peer.Emit("grown", peer.Fields{"partitions": total})
	}
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
