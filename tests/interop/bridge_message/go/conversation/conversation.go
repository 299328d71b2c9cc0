// Package conversation is how a test talks to a program that writes and reads messages: a JSON request on each
// line of its input, a JSON reply on each line of its output.
package conversation

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
)

// Property is a property with its value as text.
type Property struct {
	Type  int    `json:"type"`
	Value string `json:"value"`
}

// Description is a message with all values as text, bytes as hexadecimal digits.
type Description struct {
	Body   string              `json:"body"`
	Header map[string]string   `json:"header"`
	Props  map[string]Property `json:"props"`
}

type request struct {
	Dialect string       `json:"dialect"`
	Message *Description `json:"message"` // to be encoded
	Data    string       `json:"data"`    // to be decoded
}

type reply struct {
	Data    string       `json:"data,omitempty"`
	Message *Description `json:"message,omitempty"`
	Error   string       `json:"error,omitempty"`
}

// Run answers requests until there are no more.
func Run(
	encode func(described *Description, dialect string) ([]byte, error),
	decode func(data []byte, dialect string) (*Description, error),
) {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := json.NewEncoder(os.Stdout)
	for requests := json.NewDecoder(lines); requests.More(); {
		var asked request
		if err := requests.Decode(&asked); err != nil {
			panic(err)
		}
		var answer reply
		var data []byte
		var err error
		if asked.Message != nil {
			data, err = encode(asked.Message, asked.Dialect)
			answer.Data = hex.EncodeToString(data)
		} else if data, err = hex.DecodeString(asked.Data); err == nil {
			answer.Message, err = decode(data, asked.Dialect)
		}
		if err != nil {
			answer.Error = err.Error()
		}
		if err := output.Encode(answer); err != nil {
			panic(err)
		}
	}
}
