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

	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ovn/sb"
)

// Tables are tables of a database as they were at one moment, with rows of everybody.
type Tables struct {
	Schema string // its version
	// Expires is when the server's certificate ends; zero: it has none.
	Expires time.Time
	rows    map[string][]tuple
	byID    map[string]tuple
}

// ReadNorthbound reads the tables of the northbound database that decide about packets.
func ReadNorthbound(ctx context.Context, config Config) (*Tables, error) {
	return readTables(ctx, config, nb.Database, northbound)
}

// ReadSouthbound reads from the southbound database what became of them.
func ReadSouthbound(ctx context.Context, config Config) (*Tables, error) {
	return readTables(ctx, config, sb.Database, southbound)
}

// reachLimit is how long it may take until one of the servers answers.
const reachLimit = 5 * time.Second

// readTables reads from the first server that answers. Any of them will do: one that does not lead has the same rows, a moment later.
func readTables(ctx context.Context, config Config, database string, wanted map[string][]string) (*Tables, error) {
	c, expires, err := reach(ctx, config, database)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, copyLimit)
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
		reads = append(reads, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: name, Columns: append(columns, "_uuid")})
	}
	results, err := transact(ctx, c, reads...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", database, err)
	}
	out := &Tables{Schema: schema.Version, Expires: expires, rows: map[string][]tuple{}, byID: map[string]tuple{}}
	for i, name := range names {
		for _, row := range results[i].Rows {
			out.rows[name] = append(out.rows[name], tuple(row))
			out.byID[tuple(row).id()] = tuple(row)
		}
		// What has no other order has this one.
		slices.SortFunc(out.rows[name], func(a, b tuple) int { return strings.Compare(a.id(), b.id()) })
	}
	return out, nil
}

// Reach says why none of the servers of the northbound database answers, soon.
func Reach(ctx context.Context, config Config) error {
	c, _, err := reach(ctx, config, nb.Database)
	if err == nil {
		c.Close()
	}
	return err
}

// reach connects to the first server that answers. Each has its share of the time that there is. It says when the server's certificate ends.
func reach(ctx context.Context, config Config, database string) (client.Client, time.Time, error) {
	var expires time.Time
	secrets, err := config.tls()
	if err != nil {
		return nil, expires, err
	}
	if secrets != nil {
		verify := secrets.VerifyConnection
		secrets.VerifyConnection = func(s tls.ConnectionState) error {
			expires = s.PeerCertificates[0].NotAfter.UTC() // a server shows one, or there is no connection
			return verify(s)
		}
	}
	described, err := model.NewClientDBModel(database, nil)
	if err != nil {
		return nil, expires, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	var failed []error
	for i, endpoint := range config.Endpoints {
		c, err := client.NewOVSDBClient(described, client.WithEndpoint(endpoint), client.WithTLSConfig(secrets))
		if err != nil {
			return nil, expires, fmt.Errorf("%s: %w", endpoint, err)
		}
		end, _ := ctx.Deadline()
		turn, over := context.WithTimeout(ctx, time.Until(end)/time.Duration(len(config.Endpoints)-i))
		err = c.Connect(turn)
		over()
		if err == nil {
			return c, expires, nil
		}
		c.Close()
		failed = append(failed, err)
	}
	return nil, expires, errors.Join(failed...)
}

// transact carries operations out, and fails when one of them does.
func transact(ctx context.Context, c client.Client, operations ...ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	results, err := c.Transact(ctx, operations...)
	if err != nil {
		return nil, err
	}
	_, err = ovsdb.CheckOperationResults(results, operations)
	return results, err
}

// get are the rows of a table.
func (t *Tables) get(table string) []tuple {
	if t == nil {
		return nil
	}
	return t.rows[table]
}

// refs are the rows that a column of a row refers to.
func (t *Tables) refs(r tuple, column string) (out []tuple) {
	for _, id := range r.ids(column) {
		if row, there := t.byID[id]; there {
			out = append(out, row)
		}
	}
	return out
}

// names are the names of the rows that a column refers to, in order.
func (t *Tables) names(r tuple, column string) (out []string) {
	for _, row := range t.refs(r, column) {
		out = append(out, row.text("name"))
	}
	slices.Sort(out)
	return out
}

// tuple is a row of any table. A column that it does not have is empty.
type tuple ovsdb.Row

// atoms are the values of a column: a set of one is written without the set.
func (r tuple) atoms(column string) []any {
	switch v := r[column].(type) {
	case nil:
		return nil
	case ovsdb.OvsSet:
		return v.GoSet
	default:
		return []any{v}
	}
}

func (r tuple) id() string {
	id, _ := r["_uuid"].(ovsdb.UUID)
	return id.GoUUID
}

func (r tuple) ids(column string) (out []string) {
	for _, v := range r.atoms(column) {
		if id, is := v.(ovsdb.UUID); is {
			out = append(out, id.GoUUID)
		}
	}
	slices.Sort(out)
	return out
}

func (r tuple) texts(column string) (out []string) {
	for _, v := range r.atoms(column) {
		if text, is := v.(string); is {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

func (r tuple) text(column string) string {
	if all := r.texts(column); len(all) > 0 {
		return all[0]
	}
	return ""
}

func (r tuple) number(column string) int {
	for _, v := range r.atoms(column) {
		if n, is := v.(float64); is {
			return int(n)
		}
	}
	return 0
}

// is says whether a column is true; unsaid is what it means when nothing is said.
func (r tuple) is(column string, unsaid bool) bool {
	for _, v := range r.atoms(column) {
		if b, is := v.(bool); is {
			return b
		}
	}
	return unsaid
}

func (r tuple) pairs(column string) map[string]string {
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

func (r tuple) numbers(column string) map[string]int {
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
