// Writes the documentation pages that are generated from declarations in the code.
import { readFileSync, writeFileSync } from 'node:fs'
import { settings } from '../apps/server/src/settings.ts'
import { errorCodes } from '../packages/contract/src/errors.ts'

const table = (head: string[], rows: string[][]) =>
  [head, head.map(() => '---'), ...rows]
    .map(row => `| ${row.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n')

export const documents: Record<string, () => string> = {
  'docs/configuration.md': () => `# Configuration

Settings are environment variables. A \`.env\` file in the working directory is also read, and the environment overrides it:

\`\`\`sh
PLATFORM_PORT=8080 PLATFORM_LOG_LEVEL=debug npm start
\`\`\`

An invalid value stops the start with a message that names the setting. \`npm run docs\` writes this page from
\`apps/server/src/settings.ts\`.

${table(
  ['setting', 'default', 'meaning'],
  settings.map(({ name, default: fallback, meaning }) => [`\`${name}\``, fallback, meaning]),
)}
`,
  'docs/errors.md': () => `# Error codes

Every error code of the platform. Other SQLSTATEs of Postgres are passed through.

The management API answers \`{"error": {"message", "code"}}\`. The data plane answers
\`{"code", "message", "error", "statusCode", "details", "hint"}\`. \`npm run docs\` writes this page from
\`packages/contract/src/errors.ts\`.

${table(
  ['code', 'status', 'meaning'],
  Object.entries(errorCodes).map(([code, { status, meaning }]) => [`\`${code}\``, String(status), meaning]),
)}
`,
}

const urlOf = (file: string) => new URL(`../${file}`, import.meta.url)

export const isCurrent = (file: string): boolean => {
  try {
    return readFileSync(urlOf(file), 'utf8') === documents[file]!()
  } catch {
    return false
  }
}

if (import.meta.main)
  for (const [file, build] of Object.entries(documents)) writeFileSync(urlOf(file), build())
