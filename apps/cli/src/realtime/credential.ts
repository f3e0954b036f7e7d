// Which credential a subscription is made with. It goes into an address, where proxies and logs see it: one that could
// manage the platform must never get there.
import { resolveTarget, resolveToken, type Sources } from '../connection.ts'
import { setting } from '../environment.ts'
import { Failure } from '../failure.ts'

export function projectCredential(sources: Sources): string {
  const flag = sources.given.values['token']?.trim()
  const found = flag || setting(sources.environment, 'PLATFORM_REALTIME_TOKEN')
  const origin = flag ? '--token' : 'PLATFORM_REALTIME_TOKEN'
  if (!found)
    throw new Failure(
      'token_missing',
      'No credential of the project is given.',
      `Set PLATFORM_REALTIME_TOKEN or --token to ${wanted}.`,
    )
  const management = managementName(found, sources)
  if (management)
    throw new Failure(
      'token_not_allowed',
      `${origin} holds ${management}, which is for managing the platform; it was not sent.`,
      `Give ${wanted}.`,
    )
  return found
}

export const wanted =
  'the anon key, the service_role key or a user’s JWT of the project: plinth projects keys shows the keys'

/** What kind of management credential it is; null when it is none. */
function managementName(token: string, sources: Sources): string | null {
  if (/platform_pat_/i.test(token)) return 'a platform token'
  if (isSession(token)) return 'the token of a session of the platform'
  const ours = [
    setting(sources.environment, 'PLATFORM_TOKEN'),
    setting(sources.environment, 'PLATFORM_ADMIN_TOKEN'),
    resolveToken(sources, resolveTarget(sources))?.value,
  ]
  return ours.includes(token) ? 'the token of PLATFORM_TOKEN or the admin token' : null
}

/** Sessions of people who manage the platform; users of a project have another issuer. */
function isSession(token: string): boolean {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'))
    return typeof claims === 'object' && claims !== null && Reflect.get(claims, 'iss') === 'plinth'
  } catch {
    return false
  }
}
