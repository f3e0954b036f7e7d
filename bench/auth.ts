// Refreshing a session and reading the signed-in user over HTTP, against pgbench sending the same statements.
// Options: --rounds, --seconds, --patience.
import { parseArgs } from 'node:util'
import { signJwt } from '../apps/server/src/kernel/crypto/jwt.ts'
import { keyring } from '../apps/server/src/kernel/crypto/keys.ts'
import { withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { raw } from '../apps/server/src/kernel/postgres/sql.ts'
import { currentUserStatement, refreshStatement } from '../apps/server/src/services/auth/sessions-store.ts'
import { createTokens } from '../apps/server/src/services/auth/tokens.ts'
import { createLogins } from '../apps/server/src/tenancy/logins.ts'
import { noSigningKeys } from '../apps/server/src/tenancy/tenant-signing-keys.ts'
import { compare, interleave, report, type Sample } from './measure.ts'
import { pgbench, type Reference } from './pgbench.ts'
import { engineIn, onStage, projectsAt, refOf, startMain } from './stage.ts'
import { type LoadRequest, loaded } from './wrk.ts'

/** The measured project signs with HS256. */
const noEs256 = { ensure: () => Promise.reject(new Error('not used')), retire: () => Promise.resolve() }

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    patience: { type: 'string', default: '5' },
  },
})
const seconds = Number(given.seconds)
const connections = 32
const userCount = 2000
const unlimited = 1_000_000_000
const atLeast = 0.3
const settings = { role: 'none', search_path: 'pg_catalog,pg_temp' }

const createUsers = `
  with created as (
    insert into auth.users (id, email, email_confirmed_at, raw_app_meta_data, raw_user_meta_data)
    select ${sqlId('n')}::uuid, 'user' || n || '@example.test', now(), '{"provider":"email","providers":["email"]}',
           jsonb_build_object('full_name', 'User ' || n)
      from generate_series(1, ${userCount}) n returning id, email
  ), identified as (
    insert into auth.identities (user_id, provider, provider_id, identity_data)
    select id, 'email', id, jsonb_build_object('sub', id, 'email', email, 'email_verified', true) from created
  )
  insert into auth.sessions (id, user_id, amr)
  select id, id, '[{"method":"password","timestamp":1790000000}]' from created`

await onStage(async stage => {
  const dataDir = stage.dataDir('platform')
  const platform = await startMain(stage, {}, dataDir)
  const { address, adminToken, controlPlaneSecret, postmaster } = engineIn(dataDir)
  const noLimits = { token: 0, verify: 0, email: 0, anonymous: 0, mfa: 0, mail: 0, mail_interval_seconds: 0 }
  const project = await projectsAt(platform.url, adminToken).create({
    body: {
      name: 'bench',
      settings: { auth: { rate_limits: noLimits } },
      quotas: {
        rate_limit_anon: unlimited,
        rate_limit_authenticated: unlimited,
        rate_limit_service_role: unlimited,
      },
    },
  })
  const database = await refOf(address, project.id)
  const login = createLogins(address, keyring(controlPlaneSecret)).address(database, 'auth')
  await withClient(login, database, {}, async session => {
    await session.run(raw(createUsers))
    await session.script('analyze auth.users; analyze auth.sessions; analyze auth.identities')
  })

  const headers = { apikey: project.anon_key, authorization: `Bearer ${project.anon_key}` }
  const claims = { role: 'authenticated', sub: idOf(1), session_id: idOf(1), exp: Date.now() / 1000 + 3600 }
  const read: LoadRequest = {
    path: `/v1/${project.id}/auth/v1/user`,
    headers: { ...headers, authorization: `Bearer ${signJwt(claims, project.jwt_secret)}` },
  }
  const refresh: LoadRequest = {
    method: 'POST',
    path: `/v1/${project.id}/auth/v1/token?grant_type=refresh_token`,
    headers: { ...headers, 'content-type': 'application/json' },
    body: '{"refresh_token":"{token}"}',
  }

  /** Current values: every round continues where the last one ended. */
  async function refreshTokens(): Promise<string[]> {
    const tokens = createTokens(keyring(controlPlaneSecret), () => platform.url, noEs256)
    const user = {
      id: '',
      aud: '',
      role: '',
      email: '',
      phone: '',
      app_metadata: {},
      user_metadata: {},
      is_anonymous: false,
    }
    const rows = await withClient(login, database, {}, session =>
      session.rows<{ id: string; counter: string }>(
        raw('select id, refresh_token_counter as counter from auth.sessions order by id'),
      ),
    )
    const issued = rows.map(({ id, counter }) =>
      tokens.issue(
        { id: project.id, jwtSecret: 'x', signingKeys: noSigningKeys } as Parameters<typeof tokens.issue>[0],
        user,
        { id, aal: 'aal1', amr: [], counter: Number(counter) },
        { session_duration_seconds: 60, jwt_algorithm: 'HS256' } as Parameters<typeof tokens.issue>[3],
      ),
    )
    return (await Promise.all(issued)).map(({ refresh_token }) => refresh_token)
  }

  const stageFile = `${dataDir}/bench-`
  const load = async (request: LoadRequest, name: string, forSeconds = seconds) => {
    const tokens = request === refresh ? { tokens: await refreshTokens() } : {}
    const file = `${stageFile}${name}.lua`
    return loaded(platform, postmaster, { ...request, ...tokens }, { file, seconds: forSeconds, connections })
  }
  const against = (name: string, unit: string[], how: Pick<Reference, 'depth' | 'clients'>) => () =>
    pgbench(
      { address: login, database, postmaster },
      {
        file: `${stageFile}${name}.sql`,
        unit,
        values: {},
        ids: userCount,
        seconds,
        settings,
        ...how,
      },
    )
  const ours = (request: LoadRequest, name: string) => async () => {
    await load(request, name, 1)
    return load(request, name)
  }

  const limit = `select set_config('statement_timeout', '100', true)`
  const userQuery = currentUserStatement.sql.replaceAll('$1', sqlId(':id')).replaceAll('$2', sqlId(':id'))
  const refreshQuery = refreshStatement.sql
    .replaceAll('$1', sqlId(':id'))
    .replaceAll('$2', `(select refresh_token_counter from auth.sessions where id = ${sqlId(':id')}::uuid)`)
    .replaceAll('$3', '10')
    .replaceAll('$4', '2592000')
    .replaceAll('$5', '3600')
  await load(read, 'user', 3)
  await load(refresh, 'refresh', 3)
  const samples = await interleave(
    Number(given.rounds),
    {
      user: ours(read, 'user'),
      userByPgbench: against('user', [limit, oneLine(userQuery)], { depth: 16, clients: 2 }),
      refresh: ours(refresh, 'refresh'),
      refreshByPgbench: against('refresh', [limit, oneLine(refreshQuery)], { depth: 1, clients: 16 }),
    },
    Number(given.patience) * 1000,
  )
  await platform.stop()
  reportResult('GET /user', samples.user, samples.userByPgbench)
  reportResult('refresh of a session', samples.refresh, samples.refreshByPgbench)
})

function reportResult(subject: string, ours: Sample[], reference: Sample[]): void {
  const throughput = compare(ours, reference, each => each['per_second']!)
  report({
    bench: 'auth',
    subject,
    target: { atLeast },
    measured: throughput.ratio,
    unit: 'of the throughput of pgbench',
    range: throughput.range,
    ours: throughput.measured,
    pgbench: throughput.reference,
    rounds: throughput.rounds,
    round_seconds: seconds,
  })
}

/** Users and sessions have the same ids, numbered. */
function idOf(number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`
}
function sqlId(number: string): string {
  return `('00000000-0000-4000-8000-' || lpad(${number}::text, 12, '0'))`
}
function oneLine(sql: string): string {
  return sql.replace(/\s+/g, ' ').trim()
}
