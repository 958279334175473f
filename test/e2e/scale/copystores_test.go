package scale

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// etcdStore is the store of the API server, through etcd's gateway for JSON.
type etcdStore struct{ client *http.Client }

func newEtcdStore(of netns.NS) etcdStore {
	return etcdStore{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return of.Dial(ctx, network, address)
		},
		MaxIdleConnsPerHost: 8,
	}}}
}

func (s etcdStore) post(ctx context.Context, path string, body []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:2379/v3/kv/"+path,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode != http.StatusOK {
		var text bytes.Buffer
		_, _ = text.ReadFrom(response.Body)
		return fmt.Errorf("etcd: %s: %s", response.Status, text.String())
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// entry is a key of etcd with its value, which is an object.
type entry struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

func (s etcdStore) list(ctx context.Context) ([]entry, error) {
	const from, to = "/registry/", "/registry0"
	body := fmt.Appendf(nil, `{"key": %q, "range_end": %q}`, base64.StdEncoding.EncodeToString([]byte(from)),
		base64.StdEncoding.EncodeToString([]byte(to)))
	var answer struct {
		Entries []entry `json:"kvs"`
	}
	err := s.post(ctx, "range", body, &answer)
	return answer.Entries, err
}

// storedObject is an object of the project that is copied.
type storedObject struct{ key, value storedText }

// etcd takes this many writes, and this many bytes, in a transaction.
const (
	maxEtcdWrites = 120
	maxEtcdBytes  = 1 << 20
)

// readProject returns the objects of the project, and a node.
func (s etcdStore) readProject(ctx context.Context, c *copier) (objects []storedObject, node *storedObject, err error) {
	all, err := s.list(ctx)
	var project, others [][]byte
	for _, e := range all {
		both := slices.Concat(e.Key, e.Value)
		switch {
		case bytes.HasPrefix(e.Key, []byte("/registry/events/")), bytes.HasPrefix(e.Key, []byte("/registry/leases/")):
		case isOfProject(e.Key), isOfProject(e.Value) && bytes.HasPrefix(e.Key, []byte("/registry/ipaddresses/")):
			project = append(project, both)
			objects = append(objects, storedObject{newStoredText(e.Key), newStoredText(e.Value)})
		case string(e.Key) == "/registry/minions/"+simulatedNode(0):
			project = append(project, both)
			node = &storedObject{newStoredText(e.Key), newStoredText(e.Value)}
		default:
			others = append(others, both)
		}
	}
	c.learn(project, others)
	return objects, node, err
}

// writeCopies writes copies of objects.
func (s etcdStore) writeCopies(ctx context.Context, objects []storedObject, c *copier, first, end int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i := first; i < end; i++ {
		group.Go(func() error { return s.writeCopy(ctx, objects, c, i) })
	}
	return group.Wait()
}

func (s etcdStore) writeCopy(ctx context.Context, objects []storedObject, c *copier, i int) error {
	known := map[string]string{}
	var body, text []byte
	count := 0
	flush := func() error {
		if count == 0 {
			return nil
		}
		err := s.post(ctx, "txn", append(body, "]}"...), &struct{}{})
		body, count = body[:0], 0
		return err
	}
	for _, o := range objects {
		if count == 0 {
			body = append(body, `{"success": [`...)
		} else {
			body = append(body, ',')
		}
		text = o.key.appendCopy(text[:0], c, i, known)
		body = base64.StdEncoding.AppendEncode(append(body, `{"requestPut": {"key": "`...), text)
		text = o.value.appendCopy(text[:0], c, i, known)
		body = append(base64.StdEncoding.AppendEncode(append(body, `", "value": "`...), text), `"}}`...)
		if count++; count == maxEtcdWrites || len(body) > maxEtcdBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// rowStore is a northbound database, through its own protocol.
type rowStore struct {
	conn   net.Conn
	decode *json.Decoder
	schema map[string]struct {
		IsRoot bool `json:"isRoot"`
	}
}

const rowDatabase = "OVN_Northbound"

func newRowStore(socket string) (*rowStore, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	s := &rowStore{conn: conn, decode: json.NewDecoder(conn)}
	raw, err := s.call("get_schema", fmt.Appendf(nil, "[%q]", rowDatabase))
	if err != nil {
		return nil, err
	}
	var schema struct {
		Tables map[string]struct {
			IsRoot bool `json:"isRoot"`
		} `json:"tables"`
	}
	err = json.Unmarshal(raw, &schema)
	s.schema = schema.Tables
	return s, err
}

// call sends a request and returns the result. It answers the server's own requests, which ask whether we live.
func (s *rowStore) call(method string, params []byte) (json.RawMessage, error) {
	request := append(fmt.Appendf(nil, `{"id": 1, "method": %q, "params": `, method), params...)
	if _, err := s.conn.Write(append(request, '}')); err != nil {
		return nil, err
	}
	for {
		var message struct {
			ID     any             `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  any             `json:"error"`
		}
		if err := s.decode.Decode(&message); err != nil {
			return nil, err
		}
		switch {
		case message.Method == "echo":
			if _, err := s.conn.Write([]byte(`{"id": "echo", "result": [], "error": null}`)); err != nil {
				return nil, err
			}
		case message.Error != nil:
			return nil, fmt.Errorf("%s: %v", method, message.Error)
		default:
			return message.Result, nil
		}
	}
}

func (s *rowStore) transact(operations []byte) ([]json.RawMessage, error) {
	raw, err := s.call("transact", slices.Concat(fmt.Appendf(nil, "[%q,", rowDatabase), operations, []byte("]")))
	if err != nil {
		return nil, err
	}
	var results []json.RawMessage
	if err := json.Unmarshal(raw, &results); err != nil {
		return nil, err
	}
	for _, result := range results {
		if bytes.HasPrefix(result, []byte(`{"details"`)) || bytes.HasPrefix(result, []byte(`{"error"`)) {
			return nil, fmt.Errorf("transaction: %s", result)
		}
	}
	return results, nil
}

// databaseRow is a row as the database returns it, without its identifier.
type databaseRow struct {
	table, uuid string
	columns     map[string]json.RawMessage
	text        []byte // of all columns
}

func (s *rowStore) list() (map[string]databaseRow, error) {
	out := map[string]databaseRow{}
	for table := range s.schema {
		results, err := s.transact(fmt.Appendf(nil, `{"op": "select", "table": %q, "where": []}`, table))
		if err != nil {
			return nil, err
		}
		var answer struct {
			Rows []map[string]json.RawMessage `json:"rows"`
		}
		if err := json.Unmarshal(results[0], &answer); err != nil {
			return nil, err
		}
		for _, columns := range answer.Rows {
			row := databaseRow{table: table, columns: columns, uuid: string(columns["_uuid"][len(`["uuid","`):][:36])}
			maps.DeleteFunc(columns, func(name string, value json.RawMessage) bool {
				return strings.HasPrefix(name, "_") || string(value) == `["set",[]]` || string(value) == `["map",[]]`
			})
			row.text, err = json.Marshal(columns)
			if err != nil {
				return nil, err
			}
			out[row.uuid] = row
		}
	}
	return out, nil
}

// selectProject returns the rows of the project: those with its name, and those that only these refer to.
func (s *rowStore) selectProject(rows map[string]databaseRow) map[string]databaseRow {
	out := map[string]databaseRow{}
	for uuid, row := range rows {
		if isOfProject(row.text) {
			out[uuid] = row
		}
	}
	for found := true; found; {
		found = false
		for uuid, row := range rows {
			if _, there := out[uuid]; there || s.schema[row.table].IsRoot {
				continue
			}
			for _, of := range out {
				if bytes.Contains(of.text, []byte(uuid)) {
					out[uuid], found = row, true
					break
				}
			}
		}
	}
	return out
}

// rowReference is a column of a row that is not of the project and refers to rows of it.
type rowReference struct {
	table, uuid, column string
	to                  []string
}

// storedRows are the rows of the project, as operations that create them, and what refers to them.
type storedRows struct {
	inserts    []storedText
	references []rowReference
}

// readProject returns the rows of the project.
func (s *rowStore) readProject(c *copier) (out storedRows, err error) {
	rows, err := s.list()
	project := s.selectProject(rows)
	for _, uuid := range slices.Sorted(maps.Keys(rows)) {
		row := rows[uuid]
		if _, is := project[uuid]; is {
			c.own[uuid] = true
			out.inserts = append(out.inserts, newStoredText(fmt.Appendf(nil,
				`{"op": "insert", "table": %q, "uuid": %q, "row": %s}`, row.table, uuid, row.text)))
			continue
		}
		for column, value := range row.columns {
			r := rowReference{table: row.table, uuid: uuid, column: column}
			for _, found := range variablePattern.FindAll(value, -1) {
				if _, is := project[string(found)]; is {
					r.to = append(r.to, string(found))
				}
			}
			if len(r.to) > 0 {
				out.references = append(out.references, r)
			}
		}
	}
	return out, err
}

// writeCopies writes copies of rows in one transaction.
func (s *rowStore) writeCopies(rows storedRows, c *copier, first, end int) error {
	var body []byte
	for i := first; i < end; i++ {
		known := map[string]string{}
		for _, insert := range rows.inserts {
			body = append(insert.appendCopy(body, c, i, known), ',')
		}
	}
	for n, r := range rows.references {
		var to []string
		for i := first; i < end; i++ {
			for _, uuid := range r.to {
				to = append(to, fmt.Sprintf(`["uuid", %q]`, c.vary(uuid, i)))
			}
		}
		if n > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"op": "mutate", "table": %q, "where": [["_uuid", "==", ["uuid", %q]]], `+
			`"mutations": [[%q, "insert", ["set", [%s]]]]}`, r.table, r.uuid, r.column, strings.Join(to, ","))
	}
	_, err := s.transact(bytes.TrimSuffix(body, []byte(",")))
	return err
}

// projectTemplate is what is stored for the first project of a simulated cluster.
type projectTemplate struct {
	copier
	objects []storedObject
	node    *storedObject
	rows    storedRows
}

// readTemplate reads the first project.
func (s *simulation) readTemplate(t *testing.T) {
	t.Helper()
	s.template = &projectTemplate{copier: copier{nodes: s.nodes, services: s.services, own: map[string]bool{}}}
	store, ctx := newEtcdStore(s.OwnNS()), harness.Within(t, harness.Patience)
	var err error
	if s.template.objects, s.template.node, err = store.readProject(ctx, &s.template.copier); err != nil {
		t.Fatal(err)
	}
	if s.template.node == nil || len(s.template.objects) == 0 {
		t.Fatal("the project is not in etcd")
	}
	rows, err := newRowStore(s.Inside(s.DatabaseFile("nb1", "sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.conn.Close() //nolint:errcheck // nothing to flush
	if s.template.rows, err = rows.readProject(&s.template.copier); err != nil {
		t.Fatal(err)
	}
}

// copyProjects adds copies until there are s.projects projects, and returns what it took. Nothing else may write.
func (s *simulation) copyProjects(t *testing.T) string {
	t.Helper()
	begun, ctx, c := time.Now(), harness.Within(t, time.Hour), &s.template.copier
	store := newEtcdStore(s.OwnNS())
	harness.Eventually(t, "etcd answers", func() bool { return store.post(ctx, "range", []byte(`{"key": "AA=="}`), &struct{}{}) == nil })
	if s.Size == 1 {
		if err := store.writeCopies(ctx, []storedObject{*s.template.node}, c, 1, s.nodes); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.writeCopies(ctx, s.template.objects, c, s.Size, s.projects); err != nil {
		t.Fatal(err)
	}
	stored := time.Since(begun)
	rows, err := newRowStore(s.Inside(s.DatabaseFile("nb1", "sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.conn.Close() //nolint:errcheck // nothing to flush
	const atOnce = 500      // copies in a transaction
	for first := s.Size; first < s.projects; first += atOnce {
		if err := rows.writeCopies(s.template.rows, c, first, min(first+atOnce, s.projects)); err != nil {
			t.Fatal(err)
		}
	}
	s.Size = s.projects
	return fmt.Sprintf("%d objects and %d rows for each project, copied in %.0f and %.0f s", len(s.template.objects),
		len(s.template.rows.inserts), stored.Seconds(), (time.Since(begun) - stored).Seconds())
}
