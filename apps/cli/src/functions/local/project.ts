// The project that local functions use: its variables, and who calls.
import type { IncomingHttpHeaders } from 'node:http'
import { resolveProject, resolveTarget, resolveToken } from '../../connection.ts'
import type { Context } from '../../context.ts'
import { explain } from '../../explain.ts'
import { clean } from '../../print.ts'
import { openProject } from '../../project.ts'
import { anonKey, serviceRoleKey } from '../key.ts'

export interface LinkedProject {
  id: string
  /** The names that functions of Supabase expect. */
  variables: Record<string, string>
  /** Null if the credentials are not valid. Rejects if the platform does not answer. */
  identify(headers: IncomingHttpHeaders, query: URLSearchParams): Promise<Caller | null>
}

export interface Caller {
  role: string
  userId: string
}

/** Null, with a hint, if there is no project or the platform cannot be reached. */
export async function linkedProject(context: Context): Promise<LinkedProject | null> {
  const { screen } = context
  const target = resolveTarget(context)
  if (!resolveProject(context, target) || !resolveToken(context, target)) {
    screen.hint(
      'No project is linked, so SUPABASE_URL and the keys are not set. Link one: plinth link <url> --project <id>, with PLATFORM_TOKEN.',
    )
    return null
  }
  try {
    return await openLinked(context)
  } catch (error) {
    const { message } = explain(error, context)
    screen.warn(clean(`The linked project is not used, so SUPABASE_URL and the keys are not set. ${message}`))
    return null
  }
}

async function openLinked(context: Context): Promise<LinkedProject> {
  const { platform, id } = await openProject(context)
  const base = `${platform.target.connectUrl}/v1`
  const [anon, serviceRole] = [await anonKey(platform, id), await serviceRoleKey(platform, id)]
  if (!serviceRole)
    context.screen.hint(
      'Your token may not read the service_role key, so SUPABASE_SERVICE_ROLE_KEY is not set.',
    )
  return {
    id,
    variables: {
      SUPABASE_URL: `${base}/${id}`,
      SUPABASE_ANON_KEY: anon.value,
      ...(serviceRole && { SUPABASE_SERVICE_ROLE_KEY: serviceRole.value }),
    },
    identify: (headers, query) => identify(`${base}/whoami/${id}`, headers, query),
  }
}

/** Asks the platform, which knows the signing keys and the sessions. The query is for sockets of browsers. */
async function identify(
  url: string,
  headers: IncomingHttpHeaders,
  query: URLSearchParams,
): Promise<Caller | null> {
  const key = headers['apikey'] ?? query.get('apikey')
  const token = query.get('token')
  const authorization = headers.authorization ?? (token && `Bearer ${token}`)
  if (!key && !authorization) return null
  const reply = await fetch(url, {
    headers: { ...(key && { apikey: String(key) }), ...(authorization && { authorization }) },
  })
  if (reply.status === 401) return null
  if (!reply.ok) throw new Error(`the platform answered ${reply.status}`)
  const { role, user_id } = (await reply.json()) as { role: string; user_id: string | null }
  return { role, userId: user_id ?? '' }
}
