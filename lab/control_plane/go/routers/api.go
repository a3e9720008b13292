package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
)

// poolVersion is the API of an InferencePool.
const poolVersion = "inference.networking.k8s.io/v1"

// answerAsAPI tells a picker of these pods, and of the InferencePool "servers" that selects them, as Kubernetes' API does. Its watches
// stay open and silent: no pod comes or goes during a measurement.
func answerAsAPI(address string, addresses []string, ports []int) error {
	pods := make([]map[string]any, 0, len(addresses))
	for number, ip := range addresses {
		pods = append(pods, map[string]any{
			"apiVersion": "v1",
			"kind":       "Pod",
			"metadata":   metadata(fmt.Sprintf("server-%d", number)),
			"spec":       map[string]any{"containers": []map[string]string{{"name": "vllm", "image": "none"}}},
			"status": map[string]any{
				"phase": "Running", "podIP": ip, "podIPs": []map[string]string{{"ip": ip}},
				"conditions": []map[string]string{{"type": "Ready", "status": "True"}},
			},
		})
	}
	targets := make([]map[string]int, 0, len(ports))
	for _, port := range ports {
		targets = append(targets, map[string]int{"number": port})
	}
	pool := map[string]any{
		"apiVersion": poolVersion,
		"kind":       "InferencePool",
		"metadata":   metadata("servers"),
		"spec": map[string]any{
			"selector":          map[string]any{"matchLabels": map[string]string{"app": "server"}},
			"targetPorts":       targets,
			"endpointPickerRef": map[string]any{"name": "picker", "port": map[string]int{"number": 9002}},
		},
	}
	groupVersion := map[string]string{"groupVersion": poolVersion, "version": "v1"}
	mux := http.NewServeMux()
	for path, body := range map[string]map[string]any{
		"/api": {"kind": "APIVersions", "versions": []string{"v1"}},
		"/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []map[string]any{{
			"name": "inference.networking.k8s.io", "versions": []any{groupVersion}, "preferredVersion": groupVersion,
		}}},
		"/api/v1":                         resources("v1", "pods", "Pod"),
		"/apis/" + poolVersion:            resources(poolVersion, "inferencepools", "InferencePool"),
		"/api/v1/pods":                    objects("v1", "PodList", pods),
		"/api/v1/namespaces/default/pods": objects("v1", "PodList", pods),
		"/apis/" + poolVersion + "/namespaces/default/inferencepools": objects(poolVersion, "InferencePoolList", []map[string]any{pool}),
	} {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		items, _ := body["items"].([]map[string]any)
		mux.HandleFunc("GET "+path, say(text, items))
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(listener, mux) }()
	return nil
}

func say(body []byte, items []map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, asked *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		query := asked.URL.Query()
		if watching := query.Get("watch"); watching == "true" || watching == "1" {
			if query.Get("sendInitialEvents") == "true" {
				sendInitial(json.NewEncoder(w), items)
			}
			w.(http.Flusher).Flush()
			<-asked.Context().Done()
			return
		}
		_, _ = w.Write(body)
	}
}

// sendInitial begins a watch with all objects and the mark of their end.
func sendInitial(events *json.Encoder, items []map[string]any) {
	for _, item := range items {
		_ = events.Encode(map[string]any{"type": "ADDED", "object": item})
	}
	if len(items) > 0 {
		_ = events.Encode(map[string]any{"type": "BOOKMARK", "object": map[string]any{
			"apiVersion": items[0]["apiVersion"], "kind": items[0]["kind"],
			"metadata": map[string]any{"resourceVersion": "1", "annotations": map[string]string{"k8s.io/initial-events-end": "true"}},
		}})
	}
}

func metadata(name string) map[string]any {
	return map[string]any{
		"name": name, "namespace": "default", "uid": "uid-" + name, "resourceVersion": "1", "labels": map[string]string{"app": "server"},
	}
}

func objects(version, kind string, items []map[string]any) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]string{"resourceVersion": "1"}, "items": items}
}

func resources(version, name, kind string) map[string]any {
	return map[string]any{
		"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
		"resources": []map[string]any{{
			"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": []string{"get", "list", "watch"},
		}},
	}
}
