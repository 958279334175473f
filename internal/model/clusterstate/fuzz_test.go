package clusterstate_test

import (
	"bytes"
	"testing"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
)

// FuzzSurvey: any file is a survey or an error. A survey is the same when it is written and read again.
func FuzzSurvey(f *testing.F) {
	var file bytes.Buffer
	if err := clusterstatetest.GenerateCluster(1).Write(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	for _, text := range []string{
		`{"Taken":"2030-01-02T03:04:05Z"}`, `{"Taken":"2030-01-02T03:04:05Z","Shards":[{"Verdicts":[{"Object":{"Kind":"EIp"},"Facts":{"Address":"x"}}]}]}`,
		`{"Taken":"2030-01-02T03:04:05Z","Inspected":{"n":{"Routes":[{"To":"10.0.0.0/8"}]}}}`, `[`, `{}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := clusterstate.Read(bytes.NewReader(data), clusterstate.DefaultLimit)
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := s.Write(&first); err != nil {
			return // a year outside RFC 3339
		}
		again, err := clusterstate.Read(bytes.NewReader(first.Bytes()), clusterstate.DefaultLimit)
		if err != nil {
			t.Fatalf("%v\n%s", err, first.String())
		}
		if err := again.Write(&second); err != nil || first.String() != second.String() {
			t.Errorf("%v\nfirst  %s\nsecond %s", err, first.String(), second.String())
		}
	})
}
