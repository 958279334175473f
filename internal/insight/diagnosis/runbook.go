package diagnosis

import (
	"encoding/json"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// reference is where the pages are that explain codes and reasons.
const reference = "https://github.com/sallyport/sallyport/blob/main/docs/reference/"

// Runbook returns the address of the explanation of the finding's code: what it means and what to do.
func (f Finding) Runbook() string {
	page := "findings.md#"
	if intent.ReasonMeaning(f.Code) != "" {
		page = "conditions.md#"
	}
	return reference + page + strings.ToLower(f.Code)
}

// MarshalJSON adds the runbook.
func (f Finding) MarshalJSON() ([]byte, error) {
	type fields Finding
	return json.Marshal(struct { //nolint:wrapcheck // the caller's encoder adds its own context
		fields
		Runbook string `json:"runbook"`
	}{fields(f), f.Runbook()})
}
