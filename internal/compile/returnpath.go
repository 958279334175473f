package compile

import (
	"fmt"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
)

// returnToNetworks makes replies of floating IPs leave by the network that the FIp is on, where that is not the project's
// default. It does so by the pod's address, so that everything the pod sends to the outside takes that network.
func (c *compiler) returnToNetworks() {
	for _, f := range c.fips {
		if _, translated := c.in.Objects[c.key(intent.OvnFip, f.ovnFip)]; !translated || !f.wanted() {
			continue
		}
		network := f.eip.on
		if network == nil || (c.project.way != nil && network.Subnet == c.project.way.Subnet) {
			continue
		}
		c.bounce()
		source := "ip4.src == " + f.target.String()
		c.policy(intent.Reroute(ownership.ReturnFIP, fmt.Sprintf("inport == %q && %s", c.inport(), source), network.Gateway), f.key)
		c.policy(c.onLink(ownership.ReturnFIPLocal, source+" && ip4.dst == "+network.Prefix.Masked().String()), f.key)
	}
}
