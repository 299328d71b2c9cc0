// Command interop writes and reads messages for a test: a JSON request on each line of its input, a JSON reply
// on each line of its output.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"

	"bridgemessage/message"

	"github.com/ugorji/go/codec"
)

type property struct {
	Type  int    `json:"type"`
	Value string `json:"value"`
}

type description struct {
	Body   string              `json:"body"`
	Header map[string]string   `json:"header"`
	Props  map[string]property `json:"props"`
}

type request struct {
	Dialect string       `json:"dialect"`
	Message *description `json:"message"` // to be encoded
	Data    string       `json:"data"`    // to be decoded
}

type reply struct {
	Data    string       `json:"data,omitempty"`
	Message *description `json:"message,omitempty"`
	Error   string       `json:"error,omitempty"`
}

var dialects = map[string]*codec.MsgpackHandle{
	"helper":   message.Handle(),
	"old":      message.Handle(func(h *codec.MsgpackHandle) { h.WriteExt = false }),
	"unsigned": message.Handle(func(h *codec.MsgpackHandle) { h.PositiveIntUnsigned = true }),
	"wide":     message.Handle(func(h *codec.MsgpackHandle) { h.NoFixedNum = true }),
	"empties":  message.Handle(func(h *codec.MsgpackHandle) { h.RecursiveEmptyCheck = true }),
	"sorted":   message.Handle(func(h *codec.MsgpackHandle) { h.Canonical = true }),
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := json.NewEncoder(os.Stdout)
	for requests := json.NewDecoder(lines); requests.More(); {
		var request request
		if err := requests.Decode(&request); err != nil {
			panic(err)
		}
		if err := output.Encode(answer(request)); err != nil {
			panic(err)
		}
	}
}

func answer(request request) reply {
	handle := dialects[request.Dialect]
	if request.Message != nil {
		data, err := encode(request.Message, handle)
		return reply{Data: hex.EncodeToString(data), Error: text(err)}
	}
	described, err := decode(request.Data, handle)
	return reply{Message: described, Error: text(err)}
}

func encode(described *description, handle *codec.MsgpackHandle) ([]byte, error) {
	body, err := hex.DecodeString(described.Body)
	encoded := &message.Message{Body: body, Properties: map[string]message.Property{}}
	err = errors.Join(err, encoded.Header.Set(described.Header))
	for name, given := range described.Props {
		property, wrong := message.Parse(given.Type, given.Value)
		err = errors.Join(err, wrong)
		encoded.Properties[name] = property
	}
	if err != nil {
		return nil, err
	}
	return message.Encode(encoded, handle)
}

func decode(digits string, handle *codec.MsgpackHandle) (*description, error) {
	data, err := hex.DecodeString(digits)
	if err != nil {
		return nil, err
	}
	decoded, err := message.Decode(data, handle)
	if err != nil {
		return nil, err
	}
	described := &description{
		Body:   hex.EncodeToString(decoded.Body),
		Header: decoded.Header.Fields(),
		Props:  map[string]property{},
	}
	for name, found := range decoded.Properties {
		value, wrong := found.Text()
		err = errors.Join(err, wrong)
		described.Props[name] = property{found.Type, value}
	}
	return described, err
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
