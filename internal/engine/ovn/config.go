package ovn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/engine/mtls"
)

// Config is how to connect to a database.
type Config struct {
	// Endpoints are the servers in OVN's notation, one address each: ssl:192.0.2.1:6641, ssl:[2001:db8::1]:6641,
	// unix:/run/ovn/nb.sock.
	Endpoints []string
	// Client certificate, key and CA for ssl: endpoints, in PEM. The files are read again for each connection.
	CertFile, KeyFile, CAFile string
	// Certificates replaces the files.
	Certificates mtls.PEM
	// Unavailable is why there are no endpoints. Connecting fails with it.
	Unavailable error
	// RecomputeInterval is the minimum time between two transactions after which ovn-northd computes everything again.
	// Transactions of different shards are collected for that. 0: they are sent at once.
	RecomputeInterval time.Duration
	// OnWait is called when a transaction has to wait for that, and the function that it returns when it continues. It
	// may be nil.
	OnWait func(context.Context) (resume func())
}

// NeedsTLS reports whether an endpoint needs certificates.
func (c Config) NeedsTLS() bool {
	return slices.ContainsFunc(c.Endpoints, func(e string) bool { return strings.HasPrefix(e, "ssl:") })
}

// loadTLSConfig reads the certificates. It returns nil if no endpoint needs them.
func (c Config) loadTLSConfig() (*tls.Config, error) {
	if c.Unavailable != nil {
		return nil, c.Unavailable
	}
	if len(c.Endpoints) == 0 {
		return nil, errors.New("no endpoint of the OVN database is configured; " +
			"set --nb-address and --sb-address, or OVN_NB_DB and OVN_SB_DB")
	}
	if !c.NeedsTLS() {
		return nil, nil
	}
	files := mtls.Files{Cert: c.CertFile, Key: c.KeyFile, CA: c.CAFile}
	if !files.IsConfigured() && len(c.Certificates.Cert) == 0 {
		return nil, errors.New("the OVN databases require certificates; set --nb-cert, --nb-key and --nb-ca")
	}
	texts := c.Certificates
	if files.IsConfigured() {
		var err error
		if texts, err = files.ReadPEM(); err != nil {
			return nil, fmt.Errorf("certificates for the OVN databases: %w", err)
		}
	}
	secrets, err := texts.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("certificates for the OVN databases: %w", err)
	}
	return secrets, nil
}

// CertificateExpiry returns when the client certificate expires. Zero: there is none.
func (c Config) CertificateExpiry() time.Time {
	secrets, err := c.loadTLSConfig()
	if err != nil || secrets == nil || secrets.Certificates[0].Leaf == nil {
		return time.Time{}
	}
	return secrets.Certificates[0].Leaf.NotAfter.UTC()
}
