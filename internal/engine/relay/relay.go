// Package relay is the way to OVN's databases through the API server: a read-only server in the controller, and its
// client in commands.
//
// A connection is one HTTP/1.1 request with a bearer token, for one database. After the answer 101 it carries OVSDB
// (RFC 7047): messages that read are passed on, all others are refused (ADR 44).
package relay

import "time"

// Audience is the audience of tokens for the relay. The API server accepts none of these, and the relay no others: a
// token that the relay sees is worth nothing elsewhere.
const Audience = "sallyport-relay"

// The databases, and the paths of requests. The paths are those of nonResourceURLs in the callers' roles.
const (
	Northbound = "OVN_Northbound"
	Southbound = "OVN_Southbound"
	PathPrefix = "/sallyport/ovn/"
	SyncPath   = PathPrefix + "sync"
)

// protocol is the protocol that a connection is upgraded to.
const protocol = "ovsdb"

// serverInfo is the database in which every OVSDB server describes itself.
const serverInfo = "_Server"

// Limits of the server. An operator's command opens up to six connections at a time.
const (
	maxConnections     = 64 // in total
	maxPerCaller       = 16
	maxSockets         = 2 * maxConnections // with those whose request was not read yet
	maxHeaderBytes     = 32 << 10           // a token of the API server has about 1 KiB
	maxMessageBytes    = 1 << 20            // of a caller; a request to monitor all tables of OVN has about 30 KiB
	maxOperations      = 256                // of a transaction
	maxMonitors        = 8                  // of a connection
	maxRefusals        = 16                 // of a connection
	requestsPerSecond  = 20                 // of a connection
	requestBurst       = 200
	headerTimeout      = 5 * time.Second
	authorizeTimeout   = 5 * time.Second
	dialTimeout        = 5 * time.Second
	idleTimeout        = 2 * time.Minute // commands send an echo request every 5 s
	writeTimeout       = 30 * time.Second
	connectionLifetime = 15 * time.Minute // then the caller is authorized again
	syncInterval       = time.Second
	syncTimeout        = 3 * time.Second
)

// isDatabase reports whether a database is served.
func isDatabase(name string) bool { return name == Northbound || name == Southbound }
