// Command driver does what lines of JSON on its input ask, and answers in lines of JSON: see
// tests/interop/driven_clients.py. It drives Eclipse Paho's client of MQTT 5 for Go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
)

const (
	failed  = 0x80
	timeout = 15 * time.Second
)

// Properties are those of a message; Correlation is in base64, as JSON has it of bytes.
type Properties struct {
	User          [][2]string `json:"user"`
	ContentType   *string     `json:"contentType"`
	ResponseTopic *string     `json:"responseTopic"`
	Correlation   *[]byte     `json:"correlation"`
	PayloadFormat *byte       `json:"payloadFormat"`
	Expiry        *uint32     `json:"expiry"`
	Identifiers   []int       `json:"identifiers"`
	Alias         *uint16     `json:"alias,omitempty"`
}

// Message is one that is sent, or was received.
type Message struct {
	Topic      string     `json:"topic"`
	Payload    []byte     `json:"payload"`
	QoS        byte       `json:"qos"`
	Retain     bool       `json:"retain"`
	Properties Properties `json:"properties"`
}

// Line is a request; it has the fields that it needs.
type Line struct {
	Call              int       `json:"call"`
	Client            string    `json:"client"`
	Do                string    `json:"do"`
	Port              int       `json:"port"`
	ID                string    `json:"id"`
	Clean             bool      `json:"clean"`
	Expiry            uint32    `json:"expiry"`
	Will              *Message  `json:"will"`
	WillDelay         uint32    `json:"willDelay"`
	ReceiveMaximum    *uint16   `json:"receiveMaximum"`
	AliasMaximum      *uint16   `json:"aliasMaximum"`
	Messages          []Message `json:"messages"`
	Filter            string    `json:"filter"`
	QoS               byte      `json:"qos"`
	NoLocal           bool      `json:"noLocal"`
	RetainAsPublished bool      `json:"retainAsPublished"`
	RetainHandling    byte      `json:"retainHandling"`
	Identifier        *int      `json:"identifier"`
}

type answer map[string]any

// refused is the broker's no.
type refused struct {
	code   byte
	reason string
}

func (r refused) Error() string { return fmt.Sprintf("0x%02X %s", r.code, r.reason) }

func (r refused) told() answer { return answer{"code": r.code, "reason": r.reason} }

var (
	clients = map[string]*paho.Client{}
	lock    sync.Mutex
	output  = json.NewEncoder(os.Stdout)
)

func say(line answer) {
	lock.Lock()
	defer lock.Unlock()
	_ = output.Encode(line)
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

func userOf(pairs [][2]string) (user paho.UserProperties) {
	for _, pair := range pairs {
		user = append(user, paho.UserProperty{Key: pair[0], Value: pair[1]})
	}
	return user
}

func correlationOf(given Properties) []byte {
	if given.Correlation == nil {
		return nil
	}
	return *given.Correlation
}

func connect(asked Line) (answer, error) {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", asked.Port))
	if err != nil {
		return nil, err
	}
	name := asked.Client
	client := paho.NewClient(paho.ClientConfig{
		ClientID: asked.ID,
		Conn:     conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(got paho.PublishReceived) (bool, error) {
				say(answer{"client": name, "message": received(got.Packet)})
				return true, nil
			},
		},
		OnServerDisconnect: func(said *paho.Disconnect) {
			end := refused{code: said.ReasonCode}
			if said.Properties != nil {
				end.reason = said.Properties.ReasonString
			}
			say(answer{"client": name, "ended": end.told()})
		},
		OnClientError: func(error) {
			say(answer{"client": name, "ended": refused{}.told()})
		},
	})
	lock.Lock()
	clients[name] = client
	lock.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	said, err := client.Connect(ctx, connectPacket(asked))
	if said != nil && said.ReasonCode >= failed {
		return nil, refused{said.ReasonCode, said.Properties.ReasonString}
	}
	if err != nil {
		return nil, err
	}
	return answer{"sessionPresent": said.SessionPresent}, nil
}

func connectPacket(asked Line) *paho.Connect {
	packet := &paho.Connect{
		KeepAlive:  60,
		ClientID:   asked.ID,
		CleanStart: asked.Clean,
		Properties: &paho.ConnectProperties{
			SessionExpiryInterval: &asked.Expiry,
			ReceiveMaximum:        asked.ReceiveMaximum,
			TopicAliasMaximum:     asked.AliasMaximum,
			RequestProblemInfo:    true,
		},
	}
	if will := asked.Will; will != nil {
		given := will.Properties
		packet.WillMessage = &paho.WillMessage{
			Retain: will.Retain, QoS: will.QoS, Topic: will.Topic, Payload: will.Payload,
		}
		packet.WillProperties = &paho.WillProperties{
			WillDelayInterval: &asked.WillDelay,
			PayloadFormat:     given.PayloadFormat,
			MessageExpiry:     given.Expiry,
			ContentType:       text(given.ContentType),
			ResponseTopic:     text(given.ResponseTopic),
			CorrelationData:   correlationOf(given),
			User:              userOf(given.User),
		}
	}
	return packet
}

func received(packet *paho.Publish) Message {
	got := packet.Properties
	told := Properties{User: [][2]string{}, Identifiers: []int{}}
	for _, pair := range got.User {
		told.User = append(told.User, [2]string{pair.Key, pair.Value})
	}
	if got.ContentType != "" {
		told.ContentType = &got.ContentType
	}
	if got.ResponseTopic != "" {
		told.ResponseTopic = &got.ResponseTopic
	}
	if got.CorrelationData != nil {
		told.Correlation = &got.CorrelationData
	}
	if got.SubscriptionIdentifier != nil {
		told.Identifiers = append(told.Identifiers, *got.SubscriptionIdentifier)
	}
	told.PayloadFormat, told.Expiry = got.PayloadFormat, got.MessageExpiry
	payload := packet.Payload
	if payload == nil {
		payload = []byte{}
	}
	return Message{packet.Topic, payload, packet.QoS, packet.Retain, told}
}

// publish waits for each acknowledgement: the library has no other way to keep the order.
func publish(client *paho.Client, messages []Message) (answer, error) {
	acknowledged := [][]byte{}
	for _, message := range messages {
		given := message.Properties
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		said, err := client.Publish(ctx, &paho.Publish{
			QoS: message.QoS, Retain: message.Retain, Topic: message.Topic, Payload: message.Payload,
			Properties: &paho.PublishProperties{
				PayloadFormat:   given.PayloadFormat,
				MessageExpiry:   given.Expiry,
				ContentType:     text(given.ContentType),
				ResponseTopic:   text(given.ResponseTopic),
				CorrelationData: correlationOf(given),
				TopicAlias:      given.Alias,
				User:            userOf(given.User),
			},
		})
		cancel()
		if said != nil && said.ReasonCode >= failed {
			return nil, refused{said.ReasonCode, said.Properties.ReasonString}
		}
		if err != nil {
			return nil, err
		}
		if message.QoS > 0 {
			acknowledged = append(acknowledged, message.Payload)
		}
	}
	return answer{"acknowledged": acknowledged}, nil
}

func subscribe(client *paho.Client, asked Line) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	said, err := client.Subscribe(ctx, &paho.Subscribe{
		Properties: &paho.SubscribeProperties{SubscriptionIdentifier: asked.Identifier},
		Subscriptions: []paho.SubscribeOptions{{
			Topic:             asked.Filter,
			QoS:               asked.QoS,
			NoLocal:           asked.NoLocal,
			RetainAsPublished: asked.RetainAsPublished,
			RetainHandling:    asked.RetainHandling,
		}},
	})
	if said != nil && len(said.Reasons) == 1 {
		if code := said.Reasons[0]; code >= failed {
			return nil, refused{code, said.Properties.ReasonString}
		}
		return answer{"granted": said.Reasons[0]}, nil
	}
	return nil, err
}

func do(asked Line) (answer, error) {
	lock.Lock()
	client := clients[asked.Client]
	lock.Unlock()
	switch asked.Do {
	case "connect":
		return connect(asked)
	case "publish":
		return publish(client, asked.Messages)
	case "subscribe":
		return subscribe(client, asked)
	case "unsubscribe":
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_, err := client.Unsubscribe(ctx, &paho.Unsubscribe{Topics: []string{asked.Filter}})
		return answer{}, err
	default:
		return answer{}, client.Disconnect(&paho.Disconnect{ReasonCode: packets.DisconnectNormalDisconnection})
	}
}

func serve(asked Line) {
	said, err := do(asked)
	var no refused
	switch {
	case errors.As(err, &no):
		said = no.told()
	case err != nil:
		said = answer{"error": err.Error()}
	}
	said["call"] = asked.Call
	say(said)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var asked Line
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		go serve(asked)
	}
}
