// Secrets in a project's free-form settings: any text under a key that names a secret. They are encrypted at rest, shown as
// [redacted], and kept when a client sends [redacted] back.
import { isSealed, type Sealer } from '#src/kernel/crypto/sealed.ts'

type Json = Readonly<Record<string, unknown>>

export const redacted = '[redacted]'
const namesSecret = /(^|_)(password|secret|token|private_key|api_key|access_key)$/i

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Copies the settings with every secret replaced. `path` is its position. */
function mapSecrets(
  value: unknown,
  replace: (secret: string, path: string) => unknown,
  path = '',
  key = '',
): unknown {
  if (Array.isArray(value))
    return value.map((each, index) => mapSecrets(each, replace, `${path}.${index}`, key))
  if (isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [
        name,
        mapSecrets(each, replace, path ? `${path}.${name}` : name, name),
      ]),
    )
  return typeof value === 'string' && value !== '' && namesSecret.test(key) ? replace(value, path) : value
}

/** The encryption context is the project, not the path, so that a secret may move within the settings. */
export const settingsContext = (projectId: string) => `project:${projectId}:settings`

export const redact = (settings: Json): Json => mapSecrets(settings, () => redacted) as Json

export function sealSettings(
  settings: Json,
  projectId: string,
  sealer: Sealer,
): { settings: Json; sealed: number } {
  let sealed = 0
  const result = mapSecrets(settings, secret => {
    if (isSealed(secret)) return secret
    sealed++
    return sealer.seal(secret, settingsContext(projectId))
  })
  return { settings: result as Json, sealed }
}

/** For settings that are copied to another project. */
export const resealSettings = (settings: Json, from: string, to: string, sealer: Sealer): Json =>
  mapSecrets(settings, secret =>
    sealer.seal(sealer.open(secret, settingsContext(from)), settingsContext(to)),
  ) as Json

/** Merges top-level keys. null removes a key, and [redacted] keeps the stored secret. */
export function mergeSettings(stored: Json, change: Json): Json {
  const merged: Record<string, unknown> = { ...stored }
  for (const [key, value] of Object.entries(change))
    if (value === null) delete merged[key]
    else
      merged[key] = mapSecrets(
        value,
        (secret, path) => (secret === redacted ? (at(stored, path) ?? secret) : secret),
        key,
        key,
      )
  return merged
}

const at = (settings: Json, path: string): unknown =>
  path
    .split('.')
    .reduce<unknown>(
      (value, key) => (isObject(value) || Array.isArray(value) ? (value as Json)[key] : undefined),
      settings,
    )
