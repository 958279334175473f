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
| ` + "`ipFamilyPolicy`" + ` | both families on the project's default network, if it has ` + "`spec.ipv6`" + `; elsewhere IPv4, and ` + "`RequireDualStack`" + ` says why |
| ` + "`trafficDistribution`" + ` | not used: all ready endpoints get connections |

## How fast it is

` + "`make show-lb`" + `, items 3 to 6; two shared cores do everything, Kubernetes and the clients too. Services have ten endpoints each, in 100
projects.

| | 1,000 Services | 10,000 |
|---|---|---|
| from an accepted EndpointSlice to the row, median and 99th percentile | 3.8, 16 ms | 13, 50 ms |
| a bare transaction of the same row | 1.0, 7.3 ms | 0.8, 16 ms |
| all from nothing (to write them to Kubernetes) | 68 s (61 s) | 1,058 s (1,054 s) |
| a restarted controller has looked at everything, and writes nothing | 1.5 s | 12.2 s |
| its memory, and its CPU time for each Service | 129 MiB, 11 ms | 854 MiB, 28 ms |

The first row is measured while Kube-OVN's controller is paused. The goal is twice the bare transaction's 99th percentile and 20 ms more: 35
ms at 1,000, 52 ms at 10,000. These figures are from before [ADR 36](../adr/0036-endpoints-are-compiled-by-service.md): a change of one
Service then compiled all 100 of its project.

A changed endpoint compared with Kube-OVN's own load balancer for the same Service, while Kube-OVN's controller works (` + "`make show-scale`" + `, item
4): all times are from the moment when the request is sent, both programs react to the same change, and bare transactions alternate with the
changes. Median and 99th percentile of five rounds, in ms, with those of the best and the worst round:

| | 80 Services in 4 projects, 40 changes | 1,000 Services in 10 projects, 500 changes |
|---|---|---|
| the API server accepts the change | 5.5 (5.3 to 6.2), 11.0 (6.8 to 11.0) | 7.7 (6.6 to 8.4), 33.8 (27.4 to 41.2) |
| another client of the API server has the event | 5.2 (4.5 to 5.7), 10.6 (6.7 to 10.6) | 6.8 (6.0 to 7.8), 25.6 (21.2 to 49.6) |
| Sallyport's row has the endpoint | 8.2 (8.0 to 10.7), 15.1 (11.4 to 15.1) | 11.8 (10.3 to 14.6), 43.8 (41.0 to 53.8) |
| Kube-OVN's own load balancer has it | 8.4 (8.2 to 10.2), 15.4 (11.4 to 15.4) | 13.0 (11.2 to 15.5), 39.4 (32.6 to 46.4) |
| a bare transaction | 0.9 (0.6 to 1.2), 4.2 (1.0 to 4.2) | 0.7 (0.6 to 0.9), 5.8 (3.5 to 11.6) |

At 1,000 Services, Sallyport is ahead at the median and behind at the 99th percentile, both within the spread of the rounds. The goals are to be
ahead at both, and to need at most the event at another client and 1.5 bare transactions: 6.5 and 16.9 ms at 80 Services, 7.9 and 34.3 ms at
1,000. Only the 99th percentile at 80 Services reaches the second one, so item 4 fails at full size. At 1,000 Services, 5 ms pass between
the event and the row; a bare transaction is 0.7 ms of them and Sallyport's own compilation
[0.1 ms](controller-cost.md#cpu-time-of-a-changed-endpoint). The rest has not been profiled; Kube-OVN's controller, the API server and the
databases use the same two cores at that moment. 174 of all 800 changes at 1,000 Services compiled their whole project of 100 Services: two of
the ten projects have return ports, for which a new address of an endpoint is not a change of one Service only. A fifth of the changes is
enough to decide the 99th percentile; whether it does was not measured separately. 10,000 Services, and 1,000 in 100 projects as the test makes them, have not been compared in
this way. Earlier figures (6.5 and 126 ms for Kube-OVN, 3.3 and 11 ms for Sallyport at 1,000 and 10,000) began when the API server had answered,
and could take an endpoint of another Service for Kube-OVN's.

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

The status of a new Service is written once if its EIp is ready and its endpoints exist: 1.02 times on average for 80 and 1.00 times for 1,000 Services
that were created together with their EIps (2.1 times for 80 before). It is written twice if the EIp takes longer than one to two seconds, or if the Service
gets its endpoints later.

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
