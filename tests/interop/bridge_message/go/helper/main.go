// Command helper writes and reads messages for a test, with the helper that comes with the bridge.
package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"

	"bridgemessage/conversation"
	"bridgemessage/message"

	helper "isthmus/helpers/go"
)

func main() {
	conversation.Run(encode, decode)
}

func encode(described *conversation.Description, _ string) ([]byte, error) {
	body, err := hex.DecodeString(described.Body)
	encoded := helper.NewBridgeMessage(body)
	err = errors.Join(err, message.SetFields(&encoded.Header, described.Header))
	for name, given := range described.Props {
		property, wrong := message.Parse(given.Type, given.Value)
		err = errors.Join(err, wrong, encoded.SetProperty(name, property.Value))
		if encoded.Properties[name].Type != given.Type {
			err = errors.Join(err, fmt.Errorf("%q became %v", name, encoded.Properties[name]))
		}
	}
	if err != nil {
		return nil, err
	}
	return encoded.Encode()
}

func decode(data []byte, _ string) (*conversation.Description, error) {
	decoded, err := helper.DecodeBridgeMessage(data)
	if err != nil {
		return nil, err
	}
	described := &conversation.Description{
		Body:   hex.EncodeToString(decoded.Body),
		Header: message.Fields(&decoded.Header),
		Props:  map[string]conversation.Property{},
	}
	for name, property := range decoded.Properties {
		value, ok := text(decoded, name, property.Type)
		if !ok {
			err = errors.Join(err, fmt.Errorf("%q cannot be had as type %d", name, property.Type))
		}
		described.Props[name] = conversation.Property{Type: property.Type, Value: value}
	}
	return described, err
}

// text is the value that the getter of this very type returns.
func text(decoded *helper.BridgeMessage, name string, kind int) (string, bool) {
	switch kind {
	case helper.PropertyTypeString:
		return decoded.GetStringProperty(name)
	case helper.PropertyTypeInt8:
		value, ok := decoded.GetInt8Property(name)
		return strconv.Itoa(int(value)), ok
	case helper.PropertyTypeInt16:
		value, ok := decoded.GetInt16Property(name)
		return strconv.Itoa(int(value)), ok
	case helper.PropertyTypeInt32:
		value, ok := decoded.GetInt32Property(name)
		return strconv.Itoa(int(value)), ok
	case helper.PropertyTypeInt64:
		value, ok := decoded.GetInt64Property(name)
		return strconv.FormatInt(value, 10), ok
	case helper.PropertyTypeFloat32:
		value, ok := decoded.GetFloat32Property(name)
		return fmt.Sprintf("%08x", math.Float32bits(value)), ok
	case helper.PropertyTypeFloat64:
		value, ok := decoded.GetFloat64Property(name)
		return fmt.Sprintf("%016x", math.Float64bits(value)), ok
	case helper.PropertyTypeBool:
		value, ok := decoded.GetBoolProperty(name)
		return strconv.FormatBool(value), ok
	case helper.PropertyTypeBytes:
		value, ok := decoded.GetBytesProperty(name)
		return hex.EncodeToString(value), ok
	}
	value, ok := decoded.GetTypedProperty(name)
	return "", ok && value == nil
}
