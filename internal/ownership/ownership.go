// Package ownership is every claim that Sallyport makes on systems it shares with others.
//
// What is not claimed here is somebody else's and is never changed.
package ownership

// Kubernetes: an object is ours when it has both labels; a field of it is ours when our field manager applied it.
const (
	FieldManager = "sallyport"
	// StatusManager applies the status of our own kinds, so that spec and status have different owners.
	StatusManager = "sallyport-status"

	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "sallyport"
	// ShardLabel names the VPC that an object belongs to: the unit in which we read and write.
	ShardLabel = "kube-dc.com/vpc"

	// Finalizer is on every Project, EIp and FIp that we have written something for.
	Finalizer = "kube-dc.com/sallyport"

	// OriginAnnotation on an object of ours names the API object that asked for it: kind/namespace/name.
	OriginAnnotation = "kube-dc.com/asked-by"

	// ReminderAnnotation on an object that was deleted and does not go is when Kube-OVN was last reminded of it.
	ReminderAnnotation = "kube-dc.com/reminded-at"
)

// Labels are what marks an object of a shard as ours.
func Labels(shard string) map[string]string {
	return map[string]string{ManagedByLabel: ManagedBy, ShardLabel: shard}
}

// Ours says whether an object's labels make it ours.
func Ours(labels map[string]string) bool {
	return labels[ManagedByLabel] == ManagedBy && labels[ShardLabel] != ""
}

// OVN northbound database: a row is ours when its external_ids have these keys.
const (
	RowOwnerKey = "sallyport-owner" // the API object that asked: kind/namespace/name
	RowShardKey = "sallyport-vpc"
)

// OnLinkPort is the name of the port by which a router is linked with itself. A row that can't carry external_ids is ours
// when it belongs to this port.
func OnLinkPort(router string) string { return router + "-onlink" }

// LinkNetwork is where the addresses of links inside a project's router come from: it never leaves the router, so every
// router uses the same ones.
const LinkNetwork = "169.254.90.0/24"

// Band is a range of router policy priorities, both ends included.
type Band struct {
	First, Last int
	For         string
}

// Priorities of router policies. OVN's maximum is 32767; Kube-OVN's own numbers are 29000–29500, 30050, 30060, 30100 and
// 31000 on a VPC of ours (30000 only on its default VPC).
const (
	WayOut         = 1000  // pods → default network's gateway
	WayOutOnLink   = 1010  // pods → neighbours on the default network's own prefix
	ReturnFIP      = 30000 // a floating IP's pod → its network's gateway
	ReturnFIPLocal = 30001 // a floating IP's pod → neighbours on its network's own prefix
)

// Bands are the priorities in which every element of a project's Vpc is ours.
var Bands = []Band{
	{WayOut, WayOutOnLink, "default way out"},
	{ReturnFIP, ReturnFIPLocal, "replies of floating IPs on secondary networks"},
}

// Priority says whether router policies of a priority are ours.
func Priority(p int) bool {
	for _, b := range Bands {
		if b.First <= p && p <= b.Last {
			return true
		}
	}
	return false
}
