// Writes the documents that are lists of what the code declares.
import { readFileSync, writeFileSync } from 'node:fs'
import { settings } from '../apps/server/src/settings.ts'
import { errorCodes } from '../packages/contract/src/errors.ts'

const table = (head: string[], rows: string[][]) =>
  [head, head.map(() => '---'), ...rows]
    .map(row => `| ${row.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n')

export const documents: Record<string, () => string> = {
  'docs/configuration.md': () => `# Configuration

Settings are environment variables; a \`.env\` file in the working directory is read too, and the environment wins.
A value that cannot be used stops the start with one sentence naming the setting. Written from
\`apps/server/src/settings.ts\` by \`npm run docs\`.

${table(
  ['setting', 'default', 'meaning'],
  settings.map(({ name, default: fallback, meaning }) => [`\`${name}\``, fallback, meaning]),
)}
`,
  'docs/errors.md': () => `# Error codes

Every code the platform's own parts send. Management answers \`{"error": {"message", "code"}}\`; the data plane answers
\`{"code", "message", "error", "statusCode", "details", "hint"}\`. Written from \`packages/contract/src/errors.ts\` by
\`npm run docs\`.

${table(
  ['code', 'status', 'meaning'],
  Object.entries(errorCodes).map(([code, { status, meaning }]) => [`\`${code}\``, String(status), meaning]),
)}
`,
}

const place = (file: string) => new URL(`../${file}`, import.meta.url)

export const isCurrent = (file: string): boolean => {
  try {
    return readFileSync(place(file), 'utf8') === documents[file]!()
  } catch {
    return false
  }
}

if (import.meta.main)
  for (const [file, write] of Object.entries(documents)) writeFileSync(place(file), write())
