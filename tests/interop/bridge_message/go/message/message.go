// Package message is the bridge's message format as Go programs have it: structs with codec tags, and the
// ugorji codec with the options that the bridge sets.
package message

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/ugorji/go/codec"
)

type Header struct {
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

type Property struct {
	Type  int         `codec:"type,omitempty"`
	Value interface{} `codec:"value,omitempty"`
}

type Message struct {
	Body       []byte              `codec:"body,omitempty"`
	Header     Header              `codec:"header,omitempty"`
	Properties map[string]Property `codec:"props,omitempty"`
}

// Handle has the options of the bridge; each of change is applied to it.
func Handle(change ...func(*codec.MsgpackHandle)) *codec.MsgpackHandle {
	handle := &codec.MsgpackHandle{WriteExt: true}
	handle.RawToString = true
	handle.SignedInteger = true
	for _, apply := range change {
		apply(handle)
	}
	return handle
}

// Encode makes an encoder for every message, as the bridge does.
func Encode(message *Message, handle *codec.MsgpackHandle) ([]byte, error) {
	var room [1024]byte
	data := room[:0]
	err := codec.NewEncoderBytes(&data, handle).Encode(message)
	return data, err
}

// Decode makes a decoder for every message, as the bridge does.
func Decode(data []byte, handle *codec.MsgpackHandle) (*Message, error) {
	message := &Message{}
	err := codec.NewDecoderBytes(data, handle).Decode(message)
	return message, err
}

// Text is the value of a property as text: numbers in decimal, floats as their bits and bytes as hexadecimal
// digits. A value that a Go program could not use as one of the declared type is an error.
func (property Property) Text() (string, error) {
	switch property.Type {
	case 0:
		if text, ok := property.Value.(string); ok {
			return text, nil
		}
	case 1, 2, 3, 4:
		if number, ok := property.Value.(int64); ok {
			return strconv.FormatInt(number, 10), nil
		}
	case 5, 6:
		number := reflect.ValueOf(property.Value)
		if number.IsValid() && number.CanFloat() {
			if property.Type == 5 {
				return fmt.Sprintf("%08x", math.Float32bits(float32(number.Float()))), nil
			}
			return fmt.Sprintf("%016x", math.Float64bits(number.Float())), nil
		}
	case 7:
		if truth, ok := property.Value.(bool); ok {
			return strconv.FormatBool(truth), nil
		}
	case 8: // with RawToString, the codec hands out bytes of an unknown type as a string
		switch value := property.Value.(type) {
		case []byte:
			return hex.EncodeToString(value), nil
		case string:
			return hex.EncodeToString([]byte(value)), nil
		}
	case 9:
		if property.Value == nil {
			return "", nil
		}
	}
	return "", fmt.Errorf("type %d with a value of type %T", property.Type, property.Value)
}

// Parse is the reverse of Text: the property with a value of Go's own type.
func Parse(kind int, text string) (Property, error) {
	var value interface{}
	var err error
	switch kind {
	case 0:
		value = text
	case 1, 2, 3, 4:
		var number int64
		number, err = strconv.ParseInt(text, 10, 4<<kind)
		value = []interface{}{int8(number), int16(number), int32(number), number}[kind-1]
	case 5:
		var bits uint64
		bits, err = strconv.ParseUint(text, 16, 32)
		value = math.Float32frombits(uint32(bits))
	case 6:
		var bits uint64
		bits, err = strconv.ParseUint(text, 16, 64)
		value = math.Float64frombits(bits)
	case 7:
		value, err = strconv.ParseBool(text)
	case 8:
		value, err = hex.DecodeString(text)
	}
	return Property{Type: kind, Value: value}, err
}

// Fields are the fields of a header that are not empty, by their codec names and as text. The header is a
// pointer to a struct with codec tags.
func Fields(header interface{}) map[string]string {
	fields := map[string]string{}
	each(header, func(name string, field reflect.Value) {
		switch value := field.Interface().(type) {
		case int32:
			if value != 0 {
				fields[name] = strconv.Itoa(int(value))
			}
		case string:
			if value != "" {
				fields[name] = value
			}
		case []byte:
			if len(value) > 0 {
				fields[name] = hex.EncodeToString(value)
			}
		}
	})
	return fields
}

// SetFields is the reverse of Fields.
func SetFields(header interface{}, fields map[string]string) error {
	var failure error
	each(header, func(name string, field reflect.Value) {
		text, given := fields[name]
		if !given {
			return
		}
		switch field.Kind() {
		case reflect.Int32:
			number, err := strconv.ParseInt(text, 10, 32)
			field.SetInt(number)
			failure = errors.Join(failure, err)
		case reflect.String:
			field.SetString(text)
		default:
			octets, err := hex.DecodeString(text)
			field.SetBytes(octets)
			failure = errors.Join(failure, err)
		}
	})
	return failure
}

func each(header interface{}, visit func(name string, field reflect.Value)) {
	fields := reflect.ValueOf(header).Elem()
	for i := 0; i < fields.NumField(); i++ {
		tag := fields.Type().Field(i).Tag.Get("codec")
		visit(strings.Split(tag, ",")[0], fields.Field(i))
	}
}
