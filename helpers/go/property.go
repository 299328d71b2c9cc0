package message

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"
)

// The types of properties, as the wire has them.
const (
	PropertyTypeString  = 0
	PropertyTypeInt8    = 1
	PropertyTypeInt16   = 2
	PropertyTypeInt32   = 3
	PropertyTypeInt64   = 4
	PropertyTypeFloat32 = 5
	PropertyTypeFloat64 = 6
	PropertyTypeBool    = 7
	PropertyTypeBytes   = 8
	PropertyTypeNull    = 9
)

// Property is a value with the type that MQ has for it.
type Property struct {
	Type  int         `codec:"type,omitempty"`
	Value interface{} `codec:"value,omitempty"`
}

// SetProperty sets a property; its type is that of the value. Unsigned integers, and int, are int64; a single
// byte is an int8 with the same bits, as MQ has it; nil is null. A value that MQ has no type for, or that does
// not fit, is an error.
func (message *BridgeMessage) SetProperty(name string, value interface{}) error {
	property, err := propertyOf(value)
	if err == nil && !utf8.ValidString(name) {
		err = errors.New("the name is not UTF-8")
	}
	if err != nil {
		return fmt.Errorf("property %q: %w", name, err)
	}
	if message.Properties == nil {
		message.Properties = map[string]Property{}
	}
	message.Properties[name] = property
	return nil
}

func propertyOf(value interface{}) (Property, error) {
	switch given := value.(type) {
	case nil:
		return Property{Type: PropertyTypeNull}, nil
	case string:
		if !utf8.ValidString(given) {
			return Property{}, errors.New("the text is not UTF-8")
		}
		return Property{PropertyTypeString, given}, nil
	case bool:
		return Property{PropertyTypeBool, given}, nil
	case byte:
		return Property{PropertyTypeInt8, int8(given)}, nil
	case int8:
		return Property{PropertyTypeInt8, given}, nil
	case int16:
		return Property{PropertyTypeInt16, given}, nil
	case int32:
		return Property{PropertyTypeInt32, given}, nil
	case int, int64:
		return Property{PropertyTypeInt64, reflect.ValueOf(given).Int()}, nil
	case uint, uint16, uint32, uint64:
		number := reflect.ValueOf(given).Uint()
		if number > math.MaxInt64 {
			return Property{}, fmt.Errorf("%d is out of range for int64", number)
		}
		return Property{PropertyTypeInt64, int64(number)}, nil
	case float32:
		return Property{PropertyTypeFloat32, given}, nil
	case float64:
		return Property{PropertyTypeFloat64, given}, nil
	case []byte:
		if given == nil {
			given = []byte{}
		}
		return Property{PropertyTypeBytes, given}, nil
	}
	return Property{}, fmt.Errorf("MQ has no properties of type %T", value)
}

// valueOf is the value of a property in the Go type that belongs to its declared type. A value that is absent
// is the type's zero. An error for a value that cannot be one of that type, or a type that does not exist.
func valueOf(property Property) (interface{}, error) {
	zeros := []interface{}{"", int8(0), int16(0), int32(0), int64(0), float32(0), float64(0), false, []byte{}, nil}
	if property.Type < 0 || property.Type >= len(zeros) {
		return nil, fmt.Errorf("there is no type %d", property.Type)
	}
	if property.Value == nil {
		return zeros[property.Type], nil
	}
	switch property.Type {
	case PropertyTypeString:
		if octets, ok := octetsOf(property.Value); ok && utf8.Valid(octets) {
			return string(octets), nil
		}
	case PropertyTypeBytes: // which the codec may hand out as a string
		if octets, ok := octetsOf(property.Value); ok {
			return octets, nil
		}
	case PropertyTypeBool:
		if truth, ok := property.Value.(bool); ok {
			return truth, nil
		}
	case PropertyTypeFloat32, PropertyTypeFloat64:
		return floatOf(property)
	case PropertyTypeInt8, PropertyTypeInt16, PropertyTypeInt32, PropertyTypeInt64:
		return integerOf(property)
	}
	return nil, unfit(property)
}

func octetsOf(value interface{}) ([]byte, bool) {
	switch found := value.(type) {
	case string:
		return []byte(found), true
	case []byte:
		return found, true
	}
	return nil, false
}

func integerOf(property Property) (interface{}, error) {
	found := reflect.ValueOf(property.Value)
	var number int64
	switch {
	case found.CanInt():
		number = found.Int()
	case found.CanUint() && found.Uint() <= math.MaxInt64:
		number = int64(found.Uint())
	default:
		return nil, unfit(property)
	}
	switch property.Type {
	case PropertyTypeInt8:
		if number >= math.MinInt8 && number <= math.MaxUint8 { // a byte of another helper's is an int8 here
			return int8(number), nil
		}
	case PropertyTypeInt16:
		if number >= math.MinInt16 && number <= math.MaxInt16 {
			return int16(number), nil
		}
	case PropertyTypeInt32:
		if number >= math.MinInt32 && number <= math.MaxInt32 {
			return int32(number), nil
		}
	default:
		return number, nil
	}
	return nil, fmt.Errorf("%d is out of range for type %d", number, property.Type)
}

func floatOf(property Property) (interface{}, error) {
	found := reflect.ValueOf(property.Value)
	var number float64
	switch {
	case found.CanFloat():
		number = found.Float()
	case found.CanInt():
		number = float64(found.Int())
	case found.CanUint():
		number = float64(found.Uint())
	default:
		return nil, unfit(property)
	}
	if property.Type == PropertyTypeFloat64 {
		return number, nil
	}
	if math.Abs(number) > math.MaxFloat32 && !math.IsInf(number, 0) {
		return nil, fmt.Errorf("%g is out of range for float32", number)
	}
	return float32(number), nil
}

func unfit(property Property) error {
	return fmt.Errorf("a value of type %T is none of type %d", property.Value, property.Type)
}

// GetTypedProperty is a property's value in the Go type of its declared type; nil and true for a null one, nil
// and false if there is none, or it was put there by hand with a value that its type does not have.
func (message *BridgeMessage) GetTypedProperty(name string) (interface{}, bool) {
	property, ok := message.Properties[name]
	if !ok {
		return nil, false
	}
	value, err := valueOf(property)
	return value, err == nil
}

// get is a property of this very type; its zero and false if there is none.
func get[T any](message *BridgeMessage, name string, kind int) (found T, ok bool) {
	if property, there := message.Properties[name]; !there || property.Type != kind {
		return found, false
	}
	value, _ := message.GetTypedProperty(name)
	found, ok = value.(T)
	return found, ok
}

// GetStringProperty returns "" and false unless there is a string of that name.
func (message *BridgeMessage) GetStringProperty(name string) (string, bool) {
	return get[string](message, name, PropertyTypeString)
}

// GetInt8Property returns 0 and false unless there is an int8 of that name.
func (message *BridgeMessage) GetInt8Property(name string) (int8, bool) {
	return get[int8](message, name, PropertyTypeInt8)
}

// GetInt16Property returns 0 and false unless there is an int16 of that name.
func (message *BridgeMessage) GetInt16Property(name string) (int16, bool) {
	return get[int16](message, name, PropertyTypeInt16)
}

// GetInt32Property returns 0 and false unless there is an int32 of that name.
func (message *BridgeMessage) GetInt32Property(name string) (int32, bool) {
	return get[int32](message, name, PropertyTypeInt32)
}

// GetInt64Property returns 0 and false unless there is an int64 of that name.
func (message *BridgeMessage) GetInt64Property(name string) (int64, bool) {
	return get[int64](message, name, PropertyTypeInt64)
}

// GetFloat32Property returns 0 and false unless there is a float32 of that name.
func (message *BridgeMessage) GetFloat32Property(name string) (float32, bool) {
	return get[float32](message, name, PropertyTypeFloat32)
}

// GetFloat64Property returns 0 and false unless there is a float64 of that name.
func (message *BridgeMessage) GetFloat64Property(name string) (float64, bool) {
	return get[float64](message, name, PropertyTypeFloat64)
}

// GetBoolProperty returns false and false unless there is a bool of that name.
func (message *BridgeMessage) GetBoolProperty(name string) (bool, bool) {
	return get[bool](message, name, PropertyTypeBool)
}

// GetBytesProperty returns nil and false unless there are bytes of that name.
func (message *BridgeMessage) GetBytesProperty(name string) ([]byte, bool) {
	return get[[]byte](message, name, PropertyTypeBytes)
}

// HasProperty says whether there is a property of that name; a null one is there.
func (message *BridgeMessage) HasProperty(name string) bool {
	_, ok := message.Properties[name]
	return ok
}

// DeleteProperty removes a property and returns its value; nil if there is none.
func (message *BridgeMessage) DeleteProperty(name string) interface{} {
	value, _ := message.GetTypedProperty(name)
	delete(message.Properties, name)
	return value
}
