// The credential of a subscription. It is part of a URL, which proxies and logs may store, so a credential that can
// manage the platform must never be sent there.
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
      'There is no credential of the project.',
      `Set PLATFORM_REALTIME_TOKEN or --token to ${acceptedCredentials}.`,
    )
  const management = managementCredential(found, sources)
  if (management)
    throw new Failure(
      'token_not_allowed',
      `${origin} holds ${management}, which can manage the platform. It was not sent.`,
      `Give ${acceptedCredentials}.`,
    )
  return found
}

export const acceptedCredentials =
  'the anon key, the service_role key or a user’s JWT of the project: plinth projects keys shows the keys'

/** The kind of management credential, or null. */
function managementCredential(token: string, sources: Sources): string | null {
  if (/platform_pat_/i.test(token)) return 'a platform token'
  if (isSession(token)) return 'the token of a session of the platform'
  const ours = [
    setting(sources.environment, 'PLATFORM_TOKEN'),
    setting(sources.environment, 'PLATFORM_ADMIN_TOKEN'),
    resolveToken(sources, resolveTarget(sources))?.value,
  ]
  return ours.includes(token) ? 'the token of PLATFORM_TOKEN or the admin token' : null
}

/** Sessions of platform users. Users of a project have another issuer. */
function isSession(token: string): boolean {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'))
    return typeof claims === 'object' && claims !== null && Reflect.get(claims, 'iss') === 'plinth'
  } catch {
    return false
  }
}
