package agent

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kernel"
)

// Each Inspection is answered once, and an abandoned one is not. A wrong clock does not prevent answers.
func TestWhichInspectionsAreAnswered(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kubedcv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	k, err := kernel.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	answered := metav1.NewMicroTime(noon)
	for name, c := range map[string]struct {
		age    time.Duration
		before bool
		status kubedcv1alpha1.InspectionStatus
		want   bool
	}{
		"new":                                 {0, false, kubedcv1alpha1.InspectionStatus{}, true},
		"asked while the agent was away":      {time.Minute, true, kubedcv1alpha1.InspectionStatus{}, true},
		"left by somebody":                    {time.Hour, true, kubedcv1alpha1.InspectionStatus{}, false},
		"new, and the node's clock is ahead":  {time.Hour, false, kubedcv1alpha1.InspectionStatus{}, true},
		"new, and the node's clock is behind": {-time.Hour, false, kubedcv1alpha1.InspectionStatus{}, true},
		"answered":                            {0, true, kubedcv1alpha1.InspectionStatus{Time: &answered}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := &kubedcv1alpha1.Inspection{
				ObjectMeta: metav1.ObjectMeta{Name: "q", CreationTimestamp: metav1.NewTime(time.Now().Add(-c.age))},
				Spec:       kubedcv1alpha1.InspectionSpec{Node: "node1"}, Status: c.status,
			}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(o).WithStatusSubresource(o).Build()
			d := &inspectionServer{
				inspector: &inspector{kernel: k}, api: api,
				slots: make(chan struct{}, maxConcurrentAnswers), onError: func(err error) {
					t.Error(err)
				},
			}
			if got := d.needsAnswer(o, c.before); got != c.want {
				t.Fatalf("it is answered: %t, wanted %t", got, c.want)
			}
			if !c.want {
				return
			}
			if err := d.writeAnswer(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			var after kubedcv1alpha1.Inspection
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), &after); err != nil ||
				after.Status.Time == nil || len(after.Status.Interfaces) == 0 {
				t.Errorf("it was answered with %+v, %v", after.Status, err)
			}
		})
	}
}

// The client may have deleted the Inspection.
func TestInspectionThatWasDeleted(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kubedcv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	k, err := kernel.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	d := &inspectionServer{inspector: &inspector{kernel: k}, api: fake.NewClientBuilder().WithScheme(scheme).Build()}
	if err := d.writeAnswer(t.Context(),
		&kubedcv1alpha1.Inspection{ObjectMeta: metav1.ObjectMeta{Name: "q"}}); err != nil {
		t.Error(err)
	}
}

// Invalid questions are reported as problems, and the others are answered.
func TestQuestionsThatMakeNoSense(t *testing.T) {
	k, err := kernel.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	got := (&inspector{kernel: k}).answerInspection(t.Context(), kubedcv1alpha1.InspectionSpec{
		Neighbours:  []kubedcv1alpha1.NeighbourQuestion{{Interface: "eth9", Address: "nowhere"}},
		Routes:      []kubedcv1alpha1.RouteQuestion{{To: "somewhere"}, {To: "127.0.0.1"}},
		Connections: []kubedcv1alpha1.ConnectionQuestion{{Client: "somebody"}},
		Usage:       []string{"something", "192.0.2.1"},
	})
	if len(got.Problems) != 4 || len(got.Interfaces) == 0 || got.Routes[0].Problem == "" ||
		got.Routes[1].Interface != "lo" {
		t.Errorf("the answer is %+v", got)
	}
}
