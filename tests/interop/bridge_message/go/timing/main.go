// Command timing measures the codec for a benchmark. Its first line of input is an encoded message in hexadecimal
// digits; every further line is "encode N" or "decode N", which it answers with the nanoseconds that N of them
// took, one after the other.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"bridgemessage/message"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	lines.Scan()
	data, err := hex.DecodeString(lines.Text())
	check(err)
	handle := message.Handle()
	decoded, err := message.Decode(data, handle)
	check(err)
	for name, property := range decoded.Properties { // values of Go's own types, as a program would set them
		text, err := property.Text()
		check(err)
		decoded.Properties[name], err = message.Parse(property.Type, text)
		check(err)
	}
	for lines.Scan() {
		var work string
		var count int
		_, err = fmt.Sscan(lines.Text(), &work, &count)
		check(err)
		started := time.Now()
		for i := 0; i < count; i++ {
			if work == "encode" {
				_, err = message.Encode(decoded, handle)
			} else {
				_, err = message.Decode(data, handle)
			}
			check(err)
		}
		fmt.Println(time.Since(started).Nanoseconds())
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
