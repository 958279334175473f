package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/adoption"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// adoptTable is the table of a Project that can be adopted, of one that can't, and of a Vpc that no Project can have.
const adoptTable = `Project acme/web, Vpc acme-web
  ACTION     OBJECT              BECOMES PART OF    NOTE
  create     Project acme/web    -                  
  take over  Vpc acme-web        Project acme/web   
  take over  OvnFip shop         FIp acme-web/shop  
  leave      OvnDnatRule ssh     -                  Sallyport has no object of this kind: it stays Kube-OVN's
  take over  Namespace acme-web  Project acme/web   
  the controller adds 2 rows of OVN and entries of the Vpc, and changes or removes 1 (-o yaml lists all)
    - Logical_Router_Policy acme-web [30000 ip4.src == 10.0.0.8] reroute 198.51.100.1

Project acme/db, Vpc acme-db
  ! the VPC has no Subnet acme-db-default
  nothing of it is changed

Vpc lonely stays as it is: it has no name of a Project
3 objects to take over, 1 to create, 2 left as they are; 1 Project can't be adopted
`

func TestAdoptPrintsATable(t *testing.T) {
	project, fip := "Project acme/web", "FIp acme-web/shop"
	ref := state.Ref{Kind: "Project", Namespace: "acme", Name: "web"}
	good := &adoption.Plan{
		Project: "acme/web", VPC: "acme-web", Offers: []adoption.Offer{{Kind: intent.Vpc, Name: "acme-web", Origin: ref}},
		Items: []adoption.Item{
			{Action: adoption.Create, Kind: "Project", Name: "acme/web"},
			{Action: adoption.Take, Kind: "Vpc", Name: "acme-web", Becomes: project},
			{Action: adoption.Take, Kind: "OvnFip", Name: "shop", Becomes: fip},
			{Action: adoption.Leave, Kind: "OvnDnatRule", Name: "ssh", Note: "Sallyport has no object of this kind: it stays Kube-OVN's"},
			{Action: adoption.Take, Kind: "Namespace", Name: "acme-web", Becomes: project},
		},
	}
	bad := &adoption.Plan{
		Project: "acme/db", VPC: "acme-db", Items: []adoption.Item{{Action: adoption.Take, Kind: "Vpc", Name: "acme-db"}},
		Problems: []string{"the VPC has no Subnet acme-db-default"},
	}
	difference := func(text string) clusterstate.Difference {
		return clusterstate.Difference{Scope: "rows", Line: state.Line{Text: text}}
	}
	shard := clusterstate.Shard{Differs: []clusterstate.Difference{
		difference("+ QoS acme-web"), difference("+ ACL acme-web"),
		difference("- Logical_Router_Policy acme-web [30000 ip4.src == 10.0.0.8] reroute 198.51.100.1"),
	}}
	r := newAdoptReport([]collector.Adoption{{Plan: good, Shard: shard}, {Plan: bad}},
		[]adoption.Item{{Action: adoption.Leave, Kind: "Vpc", Name: "lonely", Note: "it has no name of a Project"}})
	var out bytes.Buffer
	if err := r.printText(&out, newColorizer(&out)); err != nil {
		t.Fatal(err)
	}
	if out.String() != adoptTable {
		t.Errorf("printed\n%s\nwanted\n%s", out.String(), adoptTable)
	}
}

func TestAdoptNeedsNames(t *testing.T) {
	for args, want := range map[string]string{
		"--apply":             "--apply needs the Projects",
		"acme-web":            "is not ORGANIZATION/PROJECT",
		"acme/web/x":          "is not ORGANIZATION/PROJECT",
		"/web":                "is not ORGANIZATION/PROJECT",
		"--survey f acme/web": "adopt needs a cluster",
	} {
		if out, err := combinedOutput(t, append([]string{"adopt"}, strings.Fields(args)...)...); err == nil || !strings.Contains(out+err.Error(), want) {
			t.Errorf("adopt %s: %v\n%s", args, err, out)
		}
	}
}
