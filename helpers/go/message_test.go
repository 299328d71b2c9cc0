package message

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/ugorji/go/codec"
)

func decoded(t *testing.T, message *BridgeMessage) *BridgeMessage {
	t.Helper()
	data, err := message.Encode()
	if err != nil {
		t.Fatal(err)
	}
	found, err := DecodeBridgeMessage(data)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEveryTypeSurvives(t *testing.T) {
	values := map[string]interface{}{
		"string": "grüße", "int8": int8(-1), "int16": int16(-300), "int32": int32(1 << 20), "int64": int64(1 << 40),
		"float32": float32(1.5), "float64": 0.1, "bool": false, "bytes": []byte{0, 255}, "null": nil,
	}
	message := NewBridgeMessage([]byte("body"))
	message.Header = BridgeHeader{Priority: 4, MsgID: []byte{0, 1}, ReplyToChannel: "answers"}
	for name, value := range values {
		if err := message.SetProperty(name, value); err != nil {
			t.Fatal(err)
		}
	}
	found := decoded(t, message)
	for name, value := range values {
		if typed, ok := found.GetTypedProperty(name); !ok || !reflect.DeepEqual(typed, value) {
			t.Errorf("%s: %#v, not %#v", name, typed, value)
		}
	}
	if !reflect.DeepEqual(found, message) {
		t.Errorf("%#v, not %#v", found, message)
	}
}

func TestUnsignedIntegersAreInt64AndAByteIsAnInt8(t *testing.T) {
	message := NewBridgeMessage(nil)
	for name, value := range map[string]interface{}{"a": uint16(7), "b": uint64(7), "c": 7, "d": uint(7)} {
		if err := message.SetProperty(name, value); err != nil {
			t.Fatal(err)
		}
		if number, ok := message.GetInt64Property(name); !ok || number != 7 {
			t.Errorf("%s: %d, %t", name, number, ok)
		}
	}
	if err := message.SetProperty("byte", byte(200)); err != nil {
		t.Fatal(err)
	}
	if number, ok := decoded(t, message).GetInt8Property("byte"); !ok || number != -56 {
		t.Errorf("%d, %t", number, ok)
	}
}

func TestWhatMQHasNoTypeForIsAnError(t *testing.T) {
	message := NewBridgeMessage(nil)
	for _, value := range []interface{}{uint64(1 << 63), []int{1}, struct{}{}, "\xff"} {
		if message.SetProperty("p", value) == nil {
			t.Errorf("%#v was taken", value)
		}
	}
	message.Properties["p"] = Property{Type: PropertyTypeInt8, Value: "text"}
	if _, err := message.Encode(); err == nil {
		t.Error("a text was written as an int8")
	}
}

func TestAGetterTakesItsOwnTypeOnly(t *testing.T) {
	message := NewBridgeMessage(nil)
	if err := message.SetProperty("text", "x"); err != nil {
		t.Fatal(err)
	}
	found := decoded(t, message)
	if _, ok := found.GetBytesProperty("text"); ok {
		t.Error("a text was had as bytes")
	}
	if _, ok := found.GetBoolProperty("text"); ok {
		t.Error("a text was had as a bool")
	}
	if _, ok := found.GetInt64Property("absent"); ok || found.HasProperty("absent") {
		t.Error("what is absent was had")
	}
}

func TestADecodedMessageWithoutPropertiesTakesSome(t *testing.T) {
	message := decoded(t, NewBridgeMessage(nil))
	if err := message.SetProperty("p", true); err != nil {
		t.Fatal(err)
	}
	if truth, ok := message.GetBoolProperty("p"); !ok || !truth {
		t.Error("it is not there")
	}
	if message.DeleteProperty("p") != true || message.HasProperty("p") || message.DeleteProperty("p") != nil {
		t.Error("it was not removed")
	}
	if err := (&BridgeMessage{}).SetProperty("p", 1); err != nil {
		t.Error(err)
	}
}

func raw(t *testing.T, value interface{}) []byte {
	t.Helper()
	var data []byte
	if err := codec.NewEncoderBytes(&data, handle).Encode(value); err != nil {
		t.Fatal(err)
	}
	return data
}

type m = map[string]interface{}

func TestReadingIsTolerant(t *testing.T) {
	data := raw(t, m{
		"body":   "a string",
		"header": m{"appl_orig": "java", "msg_id": nil, "invented": []int{1, 2}},
		"props": m{
			"ratio": m{"type": 5, "value": 0.5}, "name": m{"type": 0, "value": "x"}, "more": m{"type": 3},
			"byte": m{"type": 1, "value": 200}, "whole": m{"type": 6, "value": 2},
		},
		"more": nil,
	})
	message, err := DecodeBridgeMessage(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(message.Body, []byte("a string")) || message.Header.ApplOriginData != "java" {
		t.Errorf("%#v", message)
	}
	wanted := m{"ratio": float32(0.5), "name": "x", "more": int32(0), "byte": int8(-56), "whole": 2.0}
	for name, value := range wanted {
		if found, ok := message.GetTypedProperty(name); !ok || found != value {
			t.Errorf("%s: %#v", name, found)
		}
	}
}

func TestWhatIsNoBridgeMessageIsAnError(t *testing.T) {
	whole := raw(t, m{"props": m{"p": m{"type": 4, "value": 1}}})
	for _, data := range [][]byte{
		nil, {}, {0xc1}, {0x2a}, []byte("plain text"), whole[:len(whole)-1], append(whole, 0xc0),
		raw(t, m{"props": m{"p": m{"type": 1, "value": 259}}}),
		raw(t, m{"props": m{"p": m{"type": 10}}}),
		raw(t, m{"props": m{"p": m{"type": 7, "value": "true"}}}),
		raw(t, m{"props": m{"p": m{"type": 9, "value": 1}}}),
		raw(t, m{"header": m{"report": int64(1) << 40}}),
	} {
		if message, err := DecodeBridgeMessage(data); err == nil {
			t.Errorf("%x was read as %#v", data, message)
		}
	}
}

func FuzzNothingPanics(f *testing.F) {
	message := NewBridgeMessage([]byte("body"))
	message.Properties["p"] = Property{Type: PropertyTypeBytes, Value: []byte{1}}
	data, _ := message.Encode()
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		message, err := DecodeBridgeMessage(data)
		if err != nil {
			return
		}
		for name := range message.Properties {
			if _, ok := message.GetTypedProperty(name); !ok {
				t.Errorf("%q has no value", name)
			}
		}
		if _, err := message.Encode(); err != nil {
			t.Error(err)
		}
	})
}
