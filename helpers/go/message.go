// Package message writes and reads the messages that NATS applications exchange with IBM MQ through the bridge:
// a body, the fields of the MQMD, and typed properties, in one msgpack map.
//
//	request := message.NewBridgeMessage([]byte("an order"))
//	request.Header.ReplyToQ = "ORDERS.REPLY"
//	err := request.SetProperty("attempt", int8(3))
//	data, err := request.Encode()
//
//	received, err := message.DecodeBridgeMessage(data)
//	attempt, ok := received.GetInt8Property("attempt")
//
// What DecodeBridgeMessage returns is whole: every property has a value of the Go type that its declared type
// says. Nothing here panics, whatever the bytes are.
package message

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/ugorji/go/codec"
)

// BridgeHeader has the fields of the MQMD, and the channel to reply to. A field at its zero is not written.
type BridgeHeader struct {
	Version          int32  `codec:"version,omitempty"`
	Report           int32  `codec:"report,omitempty"`
	MsgType          int32  `codec:"type,omitempty"`
	Expiry           int32  `codec:"exp,omitempty"`
	Feedback         int32  `codec:"feed,omitempty"`
	Encoding         int32  `codec:"enc,omitempty"`
	CodedCharSetID   int32  `codec:"charset,omitempty"`
	Format           string `codec:"format,omitempty"`
	Priority         int32  `codec:"priority,omitempty"`
	Persistence      int32  `codec:"persist,omitempty"`
	MsgID            []byte `codec:"msg_id,omitempty"`
	CorrelID         []byte `codec:"corr_id,omitempty"`
	BackoutCount     int32  `codec:"backout,omitempty"`
	ReplyToQ         string `codec:"rep_q,omitempty"`
	ReplyToQMgr      string `codec:"rep_qmgr,omitempty"`
	UserIdentifier   string `codec:"user_id,omitempty"`
	AccountingToken  []byte `codec:"acct_token,omitempty"`
	ApplIdentityData string `codec:"appl_id,omitempty"`
	PutApplType      int32  `codec:"appl_type,omitempty"`
	PutApplName      string `codec:"appl_name,omitempty"`
	PutDate          string `codec:"date,omitempty"`
	PutTime          string `codec:"time,omitempty"`
	ApplOriginData   string `codec:"appl_orig_data,omitempty"`
	GroupID          []byte `codec:"grp_id,omitempty"`
	MsgSeqNumber     int32  `codec:"seq,omitempty"`
	Offset           int32  `codec:"offset,omitempty"`
	MsgFlags         int32  `codec:"flags,omitempty"`
	OriginalLength   int32  `codec:"orig_length,omitempty"`
	ReplyToChannel   string `codec:"reply_to_channel,omitempty"`
}

// BridgeMessage is an MQ message as NATS applications have it.
type BridgeMessage struct {
	Body       []byte
	Header     BridgeHeader
	Properties map[string]Property
}

// written is a message on the wire.
type written struct {
	Body       []byte              `codec:"body,omitempty"`
	Header     BridgeHeader        `codec:"header,omitempty"`
	Properties map[string]Property `codec:"props,omitempty"`
}

// read is a message on the wire, with the other name that a Java helper has for one of the header's fields.
type read struct {
	Body   []byte `codec:"body"`
	Header struct {
		BridgeHeader
		ApplOrig string `codec:"appl_orig"`
	} `codec:"header"`
	Properties map[string]Property `codec:"props"`
}

var handle = func() *codec.MsgpackHandle {
	handle := &codec.MsgpackHandle{WriteExt: true}
	handle.RawToString = true
	handle.SignedInteger = true
	return handle
}()

// NewBridgeMessage makes a message with a body and an empty header.
func NewBridgeMessage(body []byte) *BridgeMessage {
	return &BridgeMessage{Body: body, Properties: map[string]Property{}}
}

// DecodeBridgeMessage reads a message. Unknown keys are ignored; what the format does not allow is an error.
func DecodeBridgeMessage(encoded []byte) (*BridgeMessage, error) {
	if len(encoded) == 0 {
		return nil, errors.New("no bytes are no bridge message")
	}
	var found read
	decoder := codec.NewDecoderBytes(encoded, handle)
	if err := decoder.Decode(&found); err != nil {
		return nil, fmt.Errorf("not a bridge message: %w", err)
	}
	if decoder.NumBytesRead() < len(encoded) {
		return nil, fmt.Errorf("bytes behind the message, from byte %d", decoder.NumBytesRead())
	}
	message := NewBridgeMessage(found.Body)
	message.Header = found.Header.BridgeHeader
	if message.Header.ApplOriginData == "" {
		message.Header.ApplOriginData = found.Header.ApplOrig
	}
	for name, property := range found.Properties {
		value, err := valueOf(property)
		if err == nil && !utf8.ValidString(name) {
			err = errors.New("the name is not UTF-8")
		}
		if err != nil {
			return nil, fmt.Errorf("property %q: %w", name, err)
		}
		message.Properties[name] = Property{Type: property.Type, Value: value}
	}
	return message, nil
}

// Encode writes a message. A property that was put into Properties by hand with a value that its type does not
// have is an error.
func (message *BridgeMessage) Encode() ([]byte, error) {
	properties := make(map[string]Property, len(message.Properties))
	for name, property := range message.Properties {
		value, err := valueOf(property)
		if err != nil {
			return nil, fmt.Errorf("property %q: %w", name, err)
		}
		properties[name] = Property{Type: property.Type, Value: value}
	}
	var data []byte
	whole := written{Body: message.Body, Header: message.Header, Properties: properties}
	if err := codec.NewEncoderBytes(&data, handle).Encode(&whole); err != nil {
		return nil, err
	}
	return data, nil
}
