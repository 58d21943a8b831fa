#!/bin/sh
# Makes dashboard.schema.json beside it, from the types that Grafana publishes: one schema for a dashboard, one for each
# kind of panel that is in use (its options, and what its fields can be configured with), and one for a query of
# Prometheus. Needs npm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund @grafana/schema@11.6.0 ts-json-schema-generator@2.4.0
# Its types alone, without what a query refers to in other packages.
npm pack --silent @grafana/prometheus@11.6.0
tar -xzf grafana-prometheus-11.6.0.tgz package/dist/esm/index.d.mts
grep -vE '^ +(scopes|adhocFilters)\?:' package/dist/esm/index.d.mts > prometheus.d.ts
cat > tsconfig.json <<'END'
{"compilerOptions": {"module": "esnext", "moduleResolution": "node", "target": "es2020", "strict": true, "skipLibCheck": true},
 "include": ["*.ts"]}
END

raw=@grafana/schema/dist/esm/raw
schema() { # of the type, for the name
    printf '%s\n' "$3" > types.ts
    npx ts-json-schema-generator --path types.ts --tsconfig tsconfig.json --type "$2" --no-type-check --out "$1.json"
}
schema dashboard Dashboard "export { Dashboard } from '$raw/dashboard/x/dashboard_types.gen';"
schema query Query "import { PromQuery } from './prometheus'; export interface Query extends PromQuery {}"
for panel in BarGauge:bargauge Heatmap:heatmap StateTimeline:state-timeline Stat:stat Table:table TimeSeries:timeseries; do
    of=${panel%:*}
    custom="it.FieldConfig"
    case $of in BarGauge | Stat) custom="Record<string, never>" ;; esac # these have no fields of their own to configure
    module=$raw/composable/$(echo "$of" | tr '[:upper:]' '[:lower:]')/panelcfg/x/${of}PanelCfg_types.gen
    schema "${panel#*:}" Panel "import * as it from '$module';
        export interface Panel { options: it.Options; custom: $custom }"
done
node -e '
  const fs = require("fs");
  const told = (key, value) => (key === "description" && typeof value === "string" ? undefined : value);
  const parts = process.argv.slice(1).map((name) => [name, JSON.parse(fs.readFileSync(name + ".json"), told)]);
  process.stdout.write(JSON.stringify(Object.fromEntries(parts)) + "\n");
' dashboard query bargauge heatmap state-timeline stat table timeseries > "$here/dashboard.schema.json"
