package ovn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/engine/ovn/sb"
)

// Tables is a snapshot of the tables of a database, including rows of others.
type Tables struct {
	SchemaVersion string
	// CertificateExpiry is when the server's certificate expires. Zero: the server has none.
	CertificateExpiry time.Time
	rows              map[string][]ovsdb.Row
	byUUID            map[string]ovsdb.Row
}

// ReadNorthbound reads the tables of the northbound database that affect packets.
func ReadNorthbound(ctx context.Context, config Config) (*Tables, error) {
	return readTables(ctx, config, nb.Database, northboundColumns)
}

// ReadSouthbound reads the state of chassis, port bindings, MAC bindings and service monitors from the southbound
// database.
func ReadSouthbound(ctx context.Context, config Config) (*Tables, error) {
	return readTables(ctx, config, sb.Database, southboundColumns)
}

// connectTimeout limits connecting to all servers together.
const connectTimeout = 5 * time.Second

// readTables reads from the first server that answers. It need not be the leader: followers have the same rows,
// slightly later.
func readTables(ctx context.Context, config Config, database string, wanted map[string][]string) (*Tables, error) {
	c, expires, err := connectToAny(ctx, config, database)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	schema := c.Schema()
	var names []string
	var reads []ovsdb.Operation
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		table := schema.Table(name)
		if table == nil {
			continue // an older OVN
		}
		columns := slices.DeleteFunc(slices.Clone(wanted[name]), func(c string) bool { return table.Column(c) == nil })
		names = append(names, name)
		reads = append(reads, ovsdb.Operation{
			Op:      ovsdb.OperationSelect,
			Table:   name,
			Columns: append(columns, uuidColumn),
		})
	}
	results, err := transactAll(ctx, c, reads...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", database, err)
	}
	out := &Tables{
		SchemaVersion:     schema.Version,
		CertificateExpiry: expires,
		rows:              map[string][]ovsdb.Row{},
		byUUID:            map[string]ovsdb.Row{},
	}
	for i, name := range names {
		for _, row := range results[i].Rows {
			out.rows[name] = append(out.rows[name], row)
			out.byUUID[rowUUID(row)] = row
		}
		// The default order. Readers may sort differently.
		slices.SortFunc(out.rows[name], func(a, b ovsdb.Row) int { return strings.Compare(rowUUID(a), rowUUID(b)) })
	}
	return out, nil
}

// CheckReachable returns an error if no server of the northbound database answers. It does not retry.
func CheckReachable(ctx context.Context, config Config) error {
	c, _, err := connectToAny(ctx, config, nb.Database)
	if err == nil {
		c.Close()
	}
	return err
}

// connectToAny connects to the first server that answers. The remaining time is divided among the remaining servers. It
// also returns when the server's certificate expires.
func connectToAny(ctx context.Context, config Config, database string) (client.Client, time.Time, error) {
	var expires time.Time
	secrets, err := config.loadTLSConfig()
	if err != nil {
		return nil, expires, err
	}
	if secrets != nil {
		verify := secrets.VerifyConnection
		secrets.VerifyConnection = func(s tls.ConnectionState) error {
			expires = s.PeerCertificates[0].NotAfter.UTC() // TLS servers always present a certificate
			return verify(s)
		}
	}
	described, err := model.NewClientDBModel(database, nil)
	if err != nil {
		return nil, expires, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var failed []error
	for i, endpoint := range config.Endpoints {
		c, err := client.NewOVSDBClient(described, client.WithEndpoint(endpoint), client.WithTLSConfig(secrets))
		if err != nil {
			return nil, expires, fmt.Errorf("%s: %w", endpoint, err)
		}
		end, _ := ctx.Deadline()
		attempt, done := context.WithTimeout(ctx, time.Until(end)/time.Duration(len(config.Endpoints)-i))
		err = c.Connect(attempt)
		done()
		if err == nil {
			return c, expires, nil
		}
		c.Close()
		failed = append(failed, err)
	}
	return nil, expires, errors.Join(failed...)
}

// transactAll runs operations in one transaction and fails if one of them fails.
func transactAll(ctx context.Context, c client.Client, operations ...ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	results, err := c.Transact(ctx, operations...)
	if err != nil {
		return nil, err
	}
	_, err = ovsdb.CheckOperationResults(results, operations)
	return results, err
}

// tableRows returns the rows of a table.
func tableRows[M any](t *Tables, table string) (out []*M) {
	if t == nil {
		return nil
	}
	for _, row := range t.rows[table] {
		out = append(out, decodeColumns[M](row))
	}
	return out
}

// referencedRows returns the rows with the given UUIDs.
func referencedRows[M any](t *Tables, uuids []string) (out []*M) {
	for _, id := range uuids {
		if row, there := t.byUUID[id]; there {
			out = append(out, decodeColumns[M](row))
		}
	}
	return out
}

// referencedNames returns the names of the rows with the given UUIDs, sorted.
func (t *Tables) referencedNames(uuids []string) (out []string) {
	for _, row := range referencedRows[struct {
		Name string `ovsdb:"name"`
	}](t, uuids) {
		out = append(out, row.Name)
	}
	slices.Sort(out)
	return out
}
