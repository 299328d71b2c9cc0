module bridgemessage

go 1.21

require github.com/ugorji/go/codec v1.3.2

require isthmus/helpers/go v0.0.0

replace isthmus/helpers/go => ../../../../helpers/go
