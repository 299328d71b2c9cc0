// Command interop writes and reads messages for a test, with the codec in several dialects.
package main

import (
	"encoding/hex"
	"errors"

	"bridgemessage/conversation"
	"bridgemessage/message"

	"github.com/ugorji/go/codec"
)

var dialects = map[string]*codec.MsgpackHandle{
	"helper":   message.Handle(),
	"old":      message.Handle(func(h *codec.MsgpackHandle) { h.WriteExt = false }),
	"unsigned": message.Handle(func(h *codec.MsgpackHandle) { h.PositiveIntUnsigned = true }),
	"wide":     message.Handle(func(h *codec.MsgpackHandle) { h.NoFixedNum = true }),
	"empties":  message.Handle(func(h *codec.MsgpackHandle) { h.RecursiveEmptyCheck = true }),
	"sorted":   message.Handle(func(h *codec.MsgpackHandle) { h.Canonical = true }),
}

func main() {
	conversation.Run(encode, decode)
}

func encode(described *conversation.Description, dialect string) ([]byte, error) {
	body, err := hex.DecodeString(described.Body)
	encoded := &message.Message{Body: body, Properties: map[string]message.Property{}}
	err = errors.Join(err, message.SetFields(&encoded.Header, described.Header))
	for name, given := range described.Props {
		property, wrong := message.Parse(given.Type, given.Value)
		err = errors.Join(err, wrong)
		encoded.Properties[name] = property
	}
	if err != nil {
		return nil, err
	}
	return message.Encode(encoded, dialects[dialect])
}

func decode(data []byte, dialect string) (*conversation.Description, error) {
	decoded, err := message.Decode(data, dialects[dialect])
	if err != nil {
		return nil, err
	}
	described := &conversation.Description{
		Body:   hex.EncodeToString(decoded.Body),
		Header: message.Fields(&decoded.Header),
		Props:  map[string]conversation.Property{},
	}
	for name, found := range decoded.Properties {
		value, wrong := found.Text()
		err = errors.Join(err, wrong)
		described.Props[name] = conversation.Property{Type: found.Type, Value: value}
	}
	return described, err
}
