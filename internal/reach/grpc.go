package reach

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/internal/health"
)

// Service is what a node says of itself that it serves: OVN-Kubernetes' word.
const Service = "Service_Egress_IP"

// The names (DNS SAN) that the certificates of both sides have. Agents do not take one another for the controller, and whoever has the
// certificate of an agent is not the controller.
const (
	AgentName      = "sallyport-agent"
	ControllerName = "sallyport-controller"
)

// conversation is a session in which a node says that it serves.
type conversation struct {
	port int
	tls  *tls.Config

	conn    *grpc.ClientConn
	address int  // which of the node's addresses it is with
	held    bool // the last question was answered
	ends    time.Time
}

// ask asks once. A session that was there and is not any more may have ended for a normal reason: the next question tells.
func (c *conversation) ask(ctx context.Context, addresses []netip.Addr) health.Sign {
	if len(addresses) == 0 || !c.open(addresses) {
		return health.Silent
	}
	var by peer.Peer
	answer, err := grpc_health_v1.NewHealthClient(c.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: Service},
		grpc.WaitForReady(true), grpc.Peer(&by))
	if shown, secure := by.AuthInfo.(credentials.TLSInfo); secure && len(shown.State.PeerCertificates) > 0 {
		c.ends = shown.State.PeerCertificates[0].NotAfter
	}
	if err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
		c.held = true
		return health.Alive
	}
	bounced := c.held && (err == nil || status.Code(err) == codes.Unavailable)
	c.held = false
	c.end()
	c.address++
	if bounced {
		return health.Bounced
	}
	return health.Silent
}

// open makes the session, with the next of the node's addresses after one that did not answer.
func (c *conversation) open(addresses []netip.Addr) bool {
	if c.conn != nil {
		return true
	}
	secrets := insecure.NewCredentials()
	if c.tls != nil {
		secrets = credentials.NewTLS(c.tls)
	}
	target := "passthrough:///" + net.JoinHostPort(addresses[c.address%len(addresses)].String(), strconv.Itoa(c.port))
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(secrets))
	if err != nil {
		return false
	}
	c.conn = conn
	return true
}

func (c *conversation) expires() time.Time { return c.ends }

func (c *conversation) end() {
	if c.conn != nil {
		_ = c.conn.Close() // nothing is in it that matters
		c.conn = nil
	}
}

// What one connection to the health port may cost. The controller asks one question at a time, which has a name of some letters.
const (
	streams     = 4
	question    = 256     // bytes of a request
	headers     = 4 << 10 // bytes of all header fields of a request
	buffer      = 4 << 10 // bytes, for reading and for writing
	window      = 64 << 10
	handshake   = 2 * time.Second
	idle        = 30 * time.Second
	age         = time.Hour // then the certificates are shown anew
	pings       = 5 * time.Second
	unanswered  = 5 * time.Second
	lastAnswers = 2 * time.Second
)

// Serve answers for a node on a listener until the context ends: first that it does not serve any more, and then not at all.
func Serve(ctx context.Context, on net.Listener, secrets *tls.Config) error {
	options := []grpc.ServerOption{
		grpc.MaxConcurrentStreams(streams), grpc.MaxRecvMsgSize(question), grpc.MaxHeaderListSize(headers),
		grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer),
		grpc.StaticConnWindowSize(window), grpc.StaticStreamWindowSize(window), grpc.ConnectionTimeout(handshake),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pings}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idle, MaxConnectionAge: age, MaxConnectionAgeGrace: lastAnswers, Time: idle, Timeout: unanswered,
		}),
	}
	if secrets != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secrets)))
	}
	bounded := &crowd{Listener: on}
	server, answers := grpc.NewServer(options...), &answers{asked: bounded.prove}
	grpc_health_v1.RegisterHealthServer(server, answers)
	stopped := context.AfterFunc(ctx, func() {
		answers.ends.Store(true)
		cut := time.AfterFunc(lastAnswers, server.Stop) // who does not end his question is not waited for
		defer cut.Stop()
		server.GracefulStop()
	})
	defer stopped()
	return server.Serve(bounded)
}

// answers is the one question that a node answers. It has no Watch, which would hold a stream, and memory, for as long as the client
// likes; the controller asks again and again instead.
type answers struct {
	grpc_health_v1.UnimplementedHealthServer
	asked func(by net.Addr)
	ends  atomic.Bool
}

// Check says whether the node serves.
func (a *answers) Check(ctx context.Context, q *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if name := q.GetService(); name != "" && name != Service {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	if by, known := peer.FromContext(ctx); known {
		a.asked(by.Addr)
	}
	if a.ends.Load() {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}
