package loadbalancer

// conformanceIntro is the text above the tables of behaviours.
const conformanceIntro = `# Services as Kubernetes' own tests want them

What the end-to-end tests of Kubernetes want of Services (its repository as of e81f39c0e03, on the way to 1.38), as far as it says
something about load balancers or about what a load balancer has in common with other Services. For each behaviour there is a test
of ours, which shows it by packets at the external address, or the reason why there is none. A name that begins with ` + "`Test`" + ` is a test
by itself; the others are parts of ` + "`TestBalancer1Features`" + `, and [the page of load balancers](load-balancers.md) says what each shows.
"Not built" and "not shown" mean what they say; any other reason means that the behaviour does not apply.

` + "`make golden`" + ` writes this page from the list in ` + "`test/e2e/loadbalancer/behaviours_test.go`" + `, and a test checks that every test that is named exists.
`

// balancersIntro is the text above the table of features.
const balancersIntro = `# Load balancers

A Service of type LoadBalancer in a project's namespace becomes OVN load balancers, one for each protocol, on an address of an
external network. They are on the project's router, for clients outside, and on the project's switch, so that the project's own pods
reach the address as well. There is no proxy and no pod in between: the node that holds the router's gateway sends a packet straight to
the node of the backend, and the backend sees the client's own address.

## The address

The first of these that a Service has decides:

1. The annotation ` + "`service.nlb.kube-dc.com/bind-on-eip: NAME`" + `: the address of that EIp, which other Services may share on other
   ports. Next, ` + "`service.nlb.kube-dc.com/bind-on-default-gw-eip: \"true\"`" + `: the address with which the project's pods leave.
2. ` + "`spec.loadBalancerIP`" + `: that address, of whichever network has it.
3. The annotation ` + "`network.kube-dc.com/external-network-type: TYPE`" + `: an address of that network. With ` + "`loadBalancerIP`" + ` as well, the address has
   to be of that network.
4. The controller's ` + "`--default-service-network-type`" + `, or else the type that EIps have by default. A Service that has its address keeps it
   when the default changes.

But for the first, the Service gets an EIp of its own, which goes with it. ` + "`loadBalancerClass: kube-dc.com/sallyport`" + ` names us; a Service
without a class is ours in projects, or as the controller's ` + "`--classless-services`" + ` says; one of another class is left alone.

## In the management VPC

In namespaces whose pods are in Kube-OVN's own VPC (` + "`ovn-cluster`" + `), on any of its Subnets, a Service has to name our class. ` + "`bind-on-eip`" + ` may there
be ` + "`NAMESPACE/NAME`" + `: proxies of several namespaces share an address, if its owner lists them in ` + "`spec.sharedWith`" + ` of the EIp. Without that the Service
is refused (` + "`RefNotPermitted`" + `), in the same words whether there is such an EIp or not. Who is taken off the list loses the address at once. Services of
other namespaces do not keep the owner from deleting his EIp; they say that it is gone. Endpoints get connections when they are pods of the Service's
namespace, on any Subnet of the VPC; others are told and left out (` + "`EndpointNotInNamespace`" + `). Pods with ` + "`hostNetwork`" + ` are backends on the ports
that their containers declare; they see an address of ` + "`ovn-default`" + ` instead of the client's. Other ports of nodes are left out
(` + "`EndpointIsNode`" + `, [why](../adr/0035-load-balancers-of-all-subnets-of-the-management-vpc.md)). With the controller's ` + "`--management-network-type`" + ` pods of this VPC
reach external addresses of projects on that network. [Why and how](../adr/0016-management-vpc.md).

## What it says

| condition | is true when |
|---|---|
| ` + "`Accepted`" + ` | the Service makes sense, and no other has all of its ports on the same address |
| ` + "`ResolvedRefs`" + ` | the EIp that it names exists |
| ` + "`Programmed`" + ` | everything it needs was *seen* in Kubernetes and in OVN's database |
| ` + "`HasEndpoints`" + ` | connections have somewhere to go; otherwise they are refused |
| ` + "`LoadBalancerPortsError`" + ` | Kubernetes' own, only there when another Service has some of its ports |

What is false has a reason and a message with the next step. [All reasons](conditions.md). The address is in
` + "`status.loadBalancer.ingress`" + ` as soon as something is balanced on it.

## What fields of a Service mean here

| field | here |
|---|---|
| ` + "`externalTrafficPolicy`" + ` | both are the same: no other node is passed, all endpoints are used, the client's address is always kept |
| ` + "`internalTrafficPolicy`" + ` | about the cluster address, which is Kube-OVN's |
| ` + "`allocateLoadBalancerNodePorts`" + ` | nodes have no part in it; ` + "`false`" + ` saves node ports that nobody uses |
| ` + "`healthCheckNodePort`" + ` | not used: nobody has to find out which nodes have endpoints |
| ` + "`sessionAffinity`" + ` | by the client's address, for each protocol; OVN's longest timeout is 65535 s |
| ` + "`publishNotReadyAddresses`" + ` | endpoints that are not ready get connections, too |
| ` + "`ipFamilyPolicy`" + ` | IPv4 only: Kube-OVN 1.16 has no IPv6 on external networks; ` + "`RequireDualStack`" + ` is refused |
| ` + "`trafficDistribution`" + ` | not used: all ready endpoints get connections |

## How fast it is

` + "`make show-lb`" + `, items 3 to 6; two shared cores do everything, Kubernetes and the clients too. Services have ten endpoints each, in 100
projects.

| | 1,000 Services | 10,000 |
|---|---|---|
| from an accepted EndpointSlice to the row, median and 99th percentile | 3.8, 16 ms | 13, 50 ms |
| a bare transaction of the same row | 1.0, 7.3 ms | 0.8, 16 ms |
| the first while Kube-OVN's controller makes its own load balancers of the same Services | 3.3, 22 ms | 11, 255 ms |
| a bare transaction then | 1.5, 9.2 ms | 2.5, 157 ms |
| Kube-OVN's own load balancer | 6.5, 18 ms | 126, 384 ms |
| all from nothing (to write them to Kubernetes) | 68 s (61 s) | 1,058 s (1,054 s) |
| a restarted controller has looked at everything, and writes nothing | 1.5 s | 12.2 s |
| its memory, and its CPU time for each Service | 129 MiB, 11 ms | 854 MiB, 28 ms |

The first row is measured while Kube-OVN's controller is paused. The goal is twice the bare transaction's 99th percentile and 20 ms more,
paused or not: 35 and 38 ms at 1,000, 52 and 333 ms at 10,000. It is reached, at 10,000 narrowly: a project has 100 Services then, and a
change of one works out all of them anew.

How one tenant's abuse slows down others (item 6): from an accepted EndpointSlice to the row, median and 99th percentile, in two runs. The
goal is a 99th percentile of twice the quiet run's.

| | others | a bare transaction |
|---|---|---|
| quiet | 3.7, 14 ms; 3.3, 14 ms | 1.4, 7.2 ms; 1.3, 5.2 ms |
| 1,000 Services that ask for one port | 1.0, 39 ms; 0.8, 25 ms | 1.5, 24 ms; 1.7, 13 ms |
| a Service with 5,000 endpoints | 3.8, 25 ms; 3.4, 80 ms | 1.5, 18 ms; 1.4, 18 ms |
| endpoints that come and go 100 times a second | 4.0, 19 ms; 3.0, 26 ms | 2.2, 10 ms; 2.0, 17 ms |

The median of others does not move. Their 99th percentile, the second slowest of 200 changes, misses the goal in some runs, and a bare
transaction's is 1.4 to 3.5 times that of the quiet run: ovn-controller, on each of the lab's nodes, works through all of the 5,000 endpoints
at each write, and shares the two cores with everybody. A very large project is written less often for that: what comes while it rests,
300 µs for each row and endpoint above 2,000 and at most a second, is written at once after it.

A rolling update of ten pods, five times, under load (item 3): 18,431 requests, 0 failed; 42 took more than 0.9 s, because a SYN was lost.

When Kube-OVN's controller restarts, it removes every load balancer; ours are gone for 76 ms
(median of ten restarts with ten addresses), 189 ms (99th percentile), and open connections go on.

## What it does not do

- **Answer ping.** OVN passes on the ports of the Services only; an address that has nothing else does not answer ICMP echo.
  ` + "`sallyport trace --proto icmp`" + ` says so.
- **Session affinity without loss.** OVN learns a new client from its first packet, and drops it. TCP sends it again after a second; by
  UDP it is lost. The same happens when the client comes again after the timeout.

## What it does, and what shows it

Each row is a part of the test ` + "`TestBalancer1Features`" + `, by packets (` + "`make show-lb`" + `). What Kubernetes' own tests want of
Services is on [another page](service-conformance.md). ` + "`make golden`" + ` writes both.

| feature | how to ask for it | shown by |
|---|---|---|
`
