// The API description as an HTML page without scripts.
import type { Sliced } from '#src/kernel/slices.ts'
import type { Json } from './json-schema.ts'

interface Operation {
  summary?: string
  description?: string
}

/** Sections per slice. */
const sectionsAtOnce = 10

export function* page(document: Json): Sliced<string> {
  const { info, paths, components, servers } = document as {
    info: { title: string; description: string }
    paths: Record<string, Record<string, Operation>>
    components: { schemas: Record<string, Json> }
    servers: { url: string }[]
  }
  const base = servers[0]?.url ?? ''
  const schemas = Object.entries(components.schemas).filter(([name]) => name !== 'Error')
  const requests = yield* sections(Object.entries(paths), ([path, operations]) =>
    pathSection(base, path, operations),
  )
  const rows = yield* sections(schemas, ([name, schema]) => schemaSection(name, schema))
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${asText(info.title)}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
code, pre { font: 14px/1.5 ui-monospace, monospace } pre { background: #f4f4f4; padding: .5rem .75rem; overflow-x: auto }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .2rem .75rem .2rem 0; border-bottom: 1px solid #ddd; vertical-align: top }
.verb { display: inline-block; min-width: 4.5rem; font-weight: 600 } h2 { margin-top: 2.5rem } h3 { margin-bottom: .25rem }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } pre { background: #262626 } td, th { border-color: #333 } }
</style>
<h1>${asText(info.title)}</h1>
<p>${asText(info.description)} This page is also there as <a href="?">OpenAPI</a> with <code>Accept: application/json</code>.</p>
<h2>Requests</h2>
${requests}
<h2>Rows</h2>
${rows}
</html>
`
}

function* sections<T>(all: readonly T[], write: (each: T) => string): Sliced<string> {
  const written: string[] = []
  for (const each of all) {
    written.push(write(each))
    if (written.length % sectionsAtOnce === 0) yield
  }
  return written.join('\n')
}

function pathSection(base: string, path: string, operations: Record<string, Operation>): string {
  const verbs = Object.entries(operations).filter(([verb]) => verb !== 'parameters')
  const lines = verbs.map(
    ([verb, { summary, description }]) =>
      `<div><span class="verb">${verb.toUpperCase()}</span> ${asText(summary ?? '')}${description ? ` <small>${asText(description)}</small>` : ''}</div>`,
  )
  const isRead = verbs.some(([verb]) => verb === 'get')
  const url = `'${base}${path.replaceAll("'", '%27')}'`
  const call = isRead
    ? `curl ${url} -H 'apikey: <anon key>'`
    : `curl -X POST ${url} -H 'apikey: <anon key>' -H 'Content-Type: application/json' -d '{}'`
  return `<h3><code>${asText(path)}</code></h3>\n${lines.join('\n')}\n<pre>${asText(call)}</pre>`
}

function schemaSection(name: string, schema: Json): string {
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, Json>)
  const rows = properties.map(
    ([column, { 'x-type': type, description }]) =>
      `<tr><td><code>${asText(column)}</code><td><code>${asText(String(type ?? ''))}</code><td>${asText(String(description ?? ''))}`,
  )
  const about = schema['description'] ? `<p>${asText(String(schema['description']))}</p>` : ''
  return `<h3><code>${asText(name)}</code></h3>${about}<table><tr><th>Column<th>Type<th>${rows.join('')}</table>`
}

const escapes: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const asText = (text: string): string => text.replace(/[&<>"']/g, character => escapes[character]!)
