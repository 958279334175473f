package survey

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Write writes a survey as JSON, so that somebody else can look at it later.
func (s *Survey) Write(to io.Writer) error { return json.NewEncoder(to).Encode(s) }

// Read reads what Write has written.
func Read(from io.Reader) (*Survey, error) {
	var out Survey
	if err := json.NewDecoder(from).Decode(&out); err != nil {
		return nil, fmt.Errorf("it is no survey: %w", err)
	}
	if out.Taken.IsZero() {
		return nil, errors.New("it is no survey: it does not say when it was taken")
	}
	return &out, nil
}
