package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Keys of messages.
const (
	methodKey = "method"
	paramsKey = "params"
	idKey     = "id"
	resultKey = "result"
	errorKey  = "error"
	opKey     = "op"
)

// echoID is the id of the echo requests of ovsdb-server, the only requests that a caller answers.
const echoID = "echo"

// message is a JSON-RPC message of a caller.
//
// It is decoded completely and encoded again: Go and ovsdb-server may read the same bytes differently, for example an
// object with a key that occurs twice, so the bytes that were checked must be the bytes that are sent.
type message map[string]any

// errMalformed ends a connection: what follows in the stream can't be told apart any more.
var errMalformed = errors.New("not a message of OVSDB")

// messageReader reads messages of limited size from a stream.
type messageReader struct {
	decoder *json.Decoder
	source  *io.LimitedReader
	limit   int64
}

func newMessageReader(r io.Reader, limit int64) *messageReader {
	source := &io.LimitedReader{R: r}
	decoder := json.NewDecoder(source)
	decoder.UseNumber() // a float would change large integers
	return &messageReader{decoder: decoder, source: source, limit: limit}
}

// readMessage reads the next message. io.EOF: the caller has ended the stream.
func (r *messageReader) readMessage() (message, error) {
	r.source.N = r.limit
	var out message
	err := r.decoder.Decode(&out)
	switch {
	case err == nil && out == nil:
		return nil, errMalformed // null
	case err == nil:
		return out, nil
	case r.source.N <= 0:
		return nil, fmt.Errorf("a message has more than %d bytes", r.limit)
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	default:
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
}

// checkMessage returns why a message must not be sent to the server of a database, or nil.
func checkMessage(m message, database string) error {
	for key := range m {
		if !slices.Contains([]string{methodKey, paramsKey, idKey, resultKey, errorKey}, key) {
			return errors.New("the message has an unknown member")
		}
	}
	method, isRequest := m[methodKey]
	if !isRequest {
		if m[idKey] != echoID {
			return errors.New("only echo requests are answered")
		}
		return nil
	}
	name, _ := method.(string)
	params, isList := m[paramsKey].([]any)
	if !isList {
		return errors.New("params is not a list")
	}
	switch name {
	case "echo", "list_dbs", "monitor_cancel", "cancel", "set_db_change_aware":
		return nil
	case "get_schema", "monitor", "monitor_cond", "monitor_cond_since":
		return checkDatabase(params, database)
	case "transact":
		if err := checkDatabase(params, database); err != nil {
			return err
		}
		return checkOperations(params[1:])
	default:
		return errors.New("the relay only reads, and this method is not one that reads")
	}
}

// checkDatabase checks that the first parameter is the database of the connection, or the server's description.
func checkDatabase(params []any, database string) error {
	if len(params) == 0 || params[0] != database && params[0] != serverInfo {
		return fmt.Errorf("this connection reads %s only", database)
	}
	return nil
}

// checkOperations checks that a transaction only selects. Even a wait is refused: it occupies the server.
func checkOperations(operations []any) error {
	if len(operations) > maxOperations {
		return fmt.Errorf("a transaction has more than %d operations", maxOperations)
	}
	for _, o := range operations {
		fields, _ := o.(map[string]any)
		if fields[opKey] != "select" {
			return errors.New("the relay only reads: a transaction may contain select and nothing else")
		}
	}
	return nil
}

// isMonitor reports whether a message asks for updates, which the server sends until the connection ends.
func (m message) isMonitor() bool {
	return slices.Contains([]any{"monitor", "monitor_cond", "monitor_cond_since"}, m[methodKey])
}

// isAnswered reports whether the sender waits for an answer.
func (m message) isAnswered() bool { return m[methodKey] != nil && m[idKey] != nil }

// refuse returns the answer to a refused message.
func (m message) refuse(why error) message {
	return message{idKey: m[idKey], resultKey: nil, errorKey: why.Error()}
}
