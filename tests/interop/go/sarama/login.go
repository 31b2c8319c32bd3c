package main

import (
	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

func (s *sailor) logIn(config *sarama.Config) {
	mechanism := s.options.Mechanism()
	if mechanism == "none" {
		return
	}
	sasl := &config.Net.SASL
	sasl.Enable, sasl.Mechanism = true, sarama.SASLMechanism(mechanism)
	sasl.User, sasl.Password = s.options.Text("user", ""), s.options.Text("password", "")
	switch mechanism {
	case sarama.SASLTypeSCRAMSHA256:
		sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: scram.SHA256} }
	case sarama.SASLTypeSCRAMSHA512:
		sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: scram.SHA512} }
	case sarama.SASLTypeOAuth:
		sasl.TokenProvider = token(s.options.Token())
	}
}

// conversation is one log-in: sarama leaves SCRAM to its users.
type conversation struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (c *conversation) Begin(user, password, authorizationID string) error {
	client, err := c.hash.NewClient(user, password, authorizationID)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}
