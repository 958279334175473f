package program

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// StatusError is an HTTP answer that is not a success. A redirect is one too: it is not followed.
type StatusError int

func (s StatusError) Error() string {
	return fmt.Sprintf("HTTP status %d %s", int(s), http.StatusText(int(s)))
}

// askHTTP reads the whole answer and keeps its beginning.
func askHTTP(ctx context.Context, n Net, u *url.URL) (Answer, error) {
	body, err := get(ctx, n, u)
	if body == nil {
		return Answer{}, because(ctx, err)
	}
	defer body.Close()
	var kept bytes.Buffer
	size, readErr := io.Copy(&kept, io.LimitReader(body, textLimit))
	if readErr == nil {
		var rest int64
		rest, readErr = io.Copy(io.Discard, body)
		size += rest
	}
	if err == nil {
		err = because(ctx, readErr)
	}
	return Answer{Text: kept.String(), Size: size}, err
}

// get sends a request over a new connection. The body is there even when the error is a StatusError.
func get(ctx context.Context, n Net, u *url.URL) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{DialContext: n.Dial, DisableKeepAlives: true, DisableCompression: true}
	response, err := t.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return response.Body, StatusError(response.StatusCode)
	}
	return response.Body, nil
}
