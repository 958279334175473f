package guest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The last line of a machine says how its program ended, or why it did not run.
const (
	statusMark  = "\nmachine: status "
	failureMark = "\nmachine: failed: "
)

// ErrNoEnding is a machine that ended without saying how: it did not boot, or broke down.
var ErrNoEnding = errors.New("the machine did not say how its program ended")

func ended(status int) string { return fmt.Sprintf("%s%d\n", statusMark, status) }

func failed(err error) string { return fmt.Sprintf("%s%q\n", failureMark, err) }

// Ending takes apart what came over the line: what the program said, and its exit status.
func Ending(text string) (output string, status int, err error) {
	body, complete := strings.CutSuffix(text, "\n")
	at := strings.LastIndex(body, "\n")
	if !complete || at < 0 {
		return text, 0, ErrNoEnding
	}
	output, last := body[:at], body[at:]
	if why, found := strings.CutPrefix(last, failureMark); found {
		if plain, err := strconv.Unquote(why); err == nil {
			why = plain
		}
		return output, 0, fmt.Errorf("the machine did not run its program: %s", why)
	}
	number, found := strings.CutPrefix(last, statusMark)
	if status, err = strconv.Atoi(number); !found || err != nil {
		return text, 0, ErrNoEnding
	}
	return output, status, nil
}
