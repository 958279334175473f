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
	rows              map[string][]ovsdbRow
	byUUID            map[string]ovsdbRow
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
			Columns: append(columns, "_uuid"),
		})
	}
	results, err := transactAll(ctx, c, reads...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", database, err)
	}
	out := &Tables{
		SchemaVersion:     schema.Version,
		CertificateExpiry: expires,
		rows:              map[string][]ovsdbRow{},
		byUUID:            map[string]ovsdbRow{},
	}
	for i, name := range names {
		for _, row := range results[i].Rows {
			out.rows[name] = append(out.rows[name], ovsdbRow(row))
			out.byUUID[ovsdbRow(row).uuid()] = ovsdbRow(row)
		}
		// The default order. Readers may sort differently.
		slices.SortFunc(out.rows[name], func(a, b ovsdbRow) int { return strings.Compare(a.uuid(), b.uuid()) })
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
func (t *Tables) tableRows(table string) []ovsdbRow {
	if t == nil {
		return nil
	}
	return t.rows[table]
}

// referencedRows returns the rows that a column of a row refers to.
func (t *Tables) referencedRows(r ovsdbRow, column string) (out []ovsdbRow) {
	for _, id := range r.uuidColumn(column) {
		if row, there := t.byUUID[id]; there {
			out = append(out, row)
		}
	}
	return out
}

// referencedNames returns the names of the rows that a column refers to, sorted.
func (t *Tables) referencedNames(r ovsdbRow, column string) (out []string) {
	for _, row := range t.referencedRows(r, column) {
		out = append(out, row.stringColumn("name"))
	}
	slices.Sort(out)
	return out
}

// ovsdbRow is a row of any table. Missing columns are empty.
type ovsdbRow ovsdb.Row

// columnValues returns the values of a column. OVSDB encodes a set of one as a plain value.
func (r ovsdbRow) columnValues(column string) []any {
	switch v := r[column].(type) {
	case nil:
		return nil
	case ovsdb.OvsSet:
		return v.GoSet
	default:
		return []any{v}
	}
}

func (r ovsdbRow) uuid() string {
	id, _ := r["_uuid"].(ovsdb.UUID)
	return id.GoUUID
}

func (r ovsdbRow) uuidColumn(column string) (out []string) {
	for _, v := range r.columnValues(column) {
		if id, is := v.(ovsdb.UUID); is {
			out = append(out, id.GoUUID)
		}
	}
	slices.Sort(out)
	return out
}

func (r ovsdbRow) stringSetColumn(column string) (out []string) {
	for _, v := range r.columnValues(column) {
		if text, is := v.(string); is {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

func (r ovsdbRow) stringColumn(column string) string {
	if all := r.stringSetColumn(column); len(all) > 0 {
		return all[0]
	}
	return ""
}

func (r ovsdbRow) intColumn(column string) int {
	for _, v := range r.columnValues(column) {
		if n, is := v.(float64); is {
			return int(n)
		}
	}
	return 0
}

// boolColumn returns a column, or fallback if the column is empty.
func (r ovsdbRow) boolColumn(column string, fallback bool) bool {
	for _, v := range r.columnValues(column) {
		if b, is := v.(bool); is {
			return b
		}
	}
	return fallback
}

func (r ovsdbRow) stringMapColumn(column string) map[string]string {
	all, _ := r[column].(ovsdb.OvsMap)
	if len(all.GoMap) == 0 {
		return nil
	}
	out := make(map[string]string, len(all.GoMap))
	for k, v := range all.GoMap {
		key, _ := k.(string)
		out[key], _ = v.(string)
	}
	return out
}

func (r ovsdbRow) intMapColumn(column string) map[string]int {
	all, _ := r[column].(ovsdb.OvsMap)
	if len(all.GoMap) == 0 {
		return nil
	}
	out := make(map[string]int, len(all.GoMap))
	for k, v := range all.GoMap {
		key, _ := k.(string)
		n, _ := v.(float64)
		out[key] = int(n)
	}
	return out
}
