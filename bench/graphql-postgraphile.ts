// A list of 30 rows with a nested to-one over GraphQL, as anon under row-level security, against PostGraphile on the same
// Postgres, with the same tables and policies. It has its own database, because it reads catalogues that our projects hide.
// Options: --rounds, --seconds.
import { parseArgs } from 'node:util'
import { guardedSettings, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { compare, interleave, report } from './measure.ts'
import { installPostgraphile, startPostgraphile, version } from './postgraphile.ts'
import { itemTables, sendOnce, stageRows } from './rows-stage.ts'
import { engineIn, onStage } from './stage.ts'
import { type LoadRequest, loaded } from './wrk.ts'

const { values: given } = parseArgs({
  options: { rounds: { type: 'string', default: '4' }, seconds: { type: 'string', default: '3' } },
})
const roundSeconds = Number(given.seconds)
const warmUpSeconds = 3
const connections = 32
const maxWaitMs = 5000
const database = 'postgraphile'
const requestOf = (path: string, headers: Record<string, string>, query: string): LoadRequest => ({
  method: 'POST',
  path,
  headers: { ...headers, 'content-type': 'application/json' },
  body: JSON.stringify({ query }),
})

const ourQuery = '{ childrenCollection(first: 30) { edges { node { id name n parents { id name } } } } }'
const theirQuery =
  '{ allChildren(first: 30) { edges { node { rowId name n parentByParentId { rowId name } } } } }'

/** The names of the children and of their parents. */
function namesIn(answer: unknown): string {
  const { data, errors } = answer as { data: Record<string, { edges: { node: object }[] }>; errors?: unknown }
  if (errors) throw new Error(JSON.stringify(errors))
  const [connection] = Object.values(data)
  return connection!.edges
    .map(({ node }) =>
      JSON.stringify(node)
        .match(/(?:child|parent) \d+/g)!
        .join(),
    )
    .join()
}

await onStage(async stage => {
  await installPostgraphile()
  const rows = await stageRows(stage)
  const platform = await rows.start()
  const { address, postmaster } = engineIn(rows.dataDir)
  await withClient(address, 'postgres', guardedSettings, session =>
    session.script(`create database ${database} template template0`),
  )
  await withClient(address, database, {}, async session => {
    for (const statement of itemTables) await session.script(statement)
    await session.script('grant usage on schema public to anon')
    await session.script('grant select on all tables in schema public to anon')
    await session.script('vacuum analyze')
  })
  const reference = await startPostgraphile(address, database)
  try {
    const sides = {
      ours: { server: platform, request: requestOf(`/v1/graphql/${rows.projectId}`, rows.anon, ourQuery) },
      postgraphile: { server: reference, request: requestOf('/graphql', {}, theirQuery) },
    }
    const [ours, theirs] = await Promise.all(
      Object.values(sides).map(async ({ server, request }) =>
        namesIn(await sendOnce(server.url, request, 0)),
      ),
    )
    if (ours !== theirs || !ours!.startsWith('child 1,parent 1,')) throw new Error(`${ours} is not ${theirs}`)
    const load = (side: keyof typeof sides, seconds = roundSeconds) => {
      const { server, request } = sides[side]
      return loaded(server, postmaster, request, { file: rows.file(`${side}.lua`), seconds, connections })
    }
    await load('ours', warmUpSeconds)
    await load('postgraphile', warmUpSeconds)
    const samples = await interleave(
      Number(given.rounds),
      {
        // Connections are closed while the other one runs.
        ours: () => load('ours', 1).then(() => load('ours')),
        postgraphile: () => load('postgraphile', 1).then(() => load('postgraphile')),
      },
      maxWaitMs,
    )
    const compared = compare(samples.ours, samples.postgraphile, each => each['per_second']!)
    report({
      bench: 'graphql-postgraphile',
      subject: `a list of 30 rows with a nested to-one, against PostGraphile ${version}`,
      target: { atLeast: 4 },
      measured: compared.ratio,
      unit: 'times its throughput',
      excellent: 6,
      range: compared.range,
      ours: compared.measured,
      postgraphile: compared.reference,
      rounds: compared.rounds,
      round_seconds: roundSeconds,
    })
  } finally {
    await reference.stop()
    await platform.stop()
  }
})
