// Judges GNNJobs as other people's tools do, with the libraries that those use. Reads a JSON list of cases from standard
// input and writes their verdicts as a list.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/tidwall/gjson"
	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// One question: a tool, its expression for the verdict, and the object.
type Case struct {
	Tool    string          `json:"tool"`    // argo-cd, argo-workflows, katib, kstatus or kubeconform
	Success string          `json:"success"` // argo-cd: the Lua script; kstatus: nothing; kubeconform: the schemas' place
	Failure string          `json:"failure"` // argo-workflows and katib
	Object  json.RawMessage `json:"object"`
}

// Argo CD gives a script the global obj and the base, package, table and string libraries, and takes a table with status
// and message.
func argoCD(script string, object map[string]any) (string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName:   lua.OpenPackage,
		lua.BaseLibName:   lua.OpenBase,
		lua.TabLibName:    lua.OpenTable,
		lua.StringLibName: lua.OpenString,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		return "", err
	}
	result, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return "", fmt.Errorf("the script returned no table")
	}
	if _, isText := result.RawGetString("message").(lua.LString); !isText {
		return "", fmt.Errorf("the script returned no message")
	}
	return result.RawGetString("status").String(), nil
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case float64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case []any:
		list := state.NewTable()
		for _, item := range value {
			list.Append(toLua(state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for name, item := range value {
			table.RawSetString(name, toLua(state, item))
		}
		return table
	}
	return lua.LNil
}

// The fields of an object, as Argo Workflows lets label selectors ask for them.
type fields []byte

func (f fields) Has(path string) bool              { return gjson.GetBytes(f, path).Exists() }
func (f fields) Get(path string) string            { return gjson.GetBytes(f, path).String() }
func (f fields) Lookup(path string) (string, bool) { return f.Get(path), f.Has(path) }

// One requirement of failureCondition is enough; of successCondition all must hold.
func argoWorkflows(each Case) (string, error) {
	object := fields(each.Object)
	requirementsOf := func(condition string) (labels.Requirements, error) {
		selector, err := labels.Parse(condition)
		if err != nil {
			return nil, err
		}
		requirements, _ := selector.Requirements()
		return requirements, nil
	}
	failure, err := requirementsOf(each.Failure)
	if err != nil {
		return "", err
	}
	success, err := requirementsOf(each.Success)
	if err != nil {
		return "", err
	}
	for _, requirement := range failure {
		if requirement.Matches(object) {
			return "Failed", nil
		}
	}
	for _, requirement := range success {
		if !requirement.Matches(object) {
			return "Running", nil
		}
	}
	return "Succeeded", nil
}

// A condition of a Katib trial holds if it finds an object or a list that is not empty, whose first element has the reason
// and the message of the trial.
func katib(each Case) (string, error) {
	holds := func(expression string) (bool, error) {
		found := gjson.GetBytes(each.Object, expression)
		if found.IsArray() && len(found.Array()) > 0 {
			found = found.Array()[0]
		}
		if !found.IsObject() {
			return false, nil
		}
		var trial struct{ Reason, Message string }
		return true, json.Unmarshal([]byte(found.String()), &trial)
	}
	if failed, err := holds(each.Failure); failed || err != nil {
		return "Failed", err
	}
	if succeeded, err := holds(each.Success); succeeded || err != nil {
		return "Succeeded", err
	}
	return "Running", nil
}

func kstatus(object map[string]any) (string, error) {
	// As clients decode it: whole numbers are integers.
	content, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	item := &unstructured.Unstructured{}
	if err := item.UnmarshalJSON(content); err != nil {
		return "", err
	}
	result, err := status.Compute(item)
	if err != nil {
		return "", err
	}
	return result.Status.String(), nil
}

// "valid", or what is wrong.
func kubeconform(each Case) (string, error) {
	judge, err := validator.New([]string{each.Success}, validator.Opts{Strict: true})
	if err != nil {
		return "", err
	}
	found := judge.ValidateResource(resource.Resource{Bytes: each.Object})
	switch found.Status {
	case validator.Valid:
		return "valid", nil
	case validator.Invalid:
		return found.Err.Error(), nil
	}
	return "", fmt.Errorf("neither valid nor invalid: %v", found.Err)
}

func judge(each Case) (string, error) {
	var object map[string]any
	if err := json.Unmarshal(each.Object, &object); err != nil {
		return "", err
	}
	switch each.Tool {
	case "argo-cd":
		return argoCD(each.Success, object)
	case "argo-workflows":
		return argoWorkflows(each)
	case "katib":
		return katib(each)
	case "kstatus":
		return kstatus(object)
	case "kubeconform":
		return kubeconform(each)
	}
	return "", fmt.Errorf("expected argo-cd, argo-workflows, katib, kstatus or kubeconform")
}

func main() {
	var cases []Case
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		fmt.Fprintln(os.Stderr, "judges:", err)
		os.Exit(1)
	}
	verdicts := []string{}
	for i, each := range cases {
		verdict, err := judge(each)
		if err != nil {
			fmt.Fprintf(os.Stderr, "judges: case %d, %s: %v\n", i, each.Tool, err)
			os.Exit(1)
		}
		verdicts = append(verdicts, verdict)
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		fmt.Fprintln(os.Stderr, "judges:", err)
		os.Exit(1)
	}
}
