// A list of 30 rows with a nested to-one over GraphQL, as anon under row-level security, against PostGraphile on the same
// Postgres, with the same tables and policies. It has its own database, because it reads catalogues that our projects hide.
// Options: --rounds, --seconds.
import { parseArgs } from 'node:util'
import { report } from './measure.ts'
import { installPostgraphile, startPostgraphile, version } from './postgraphile.ts'
import { compareThroughput, createDatabase } from './reference-server.ts'
import { itemTables, sendOnce, stageRows } from './rows-stage.ts'
import { engineIn, onStage } from './stage.ts'
import type { LoadRequest } from './wrk.ts'

const { values: given } = parseArgs({
  options: { rounds: { type: 'string', default: '4' }, seconds: { type: 'string', default: '3' } },
})
const roundSeconds = Number(given.seconds)
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
  await createDatabase(address, database, [
    ...itemTables,
    'grant usage on schema public to anon',
    'grant select on all tables in schema public to anon',
  ])
  const reference = await startPostgraphile(address, database)
  try {
    const sides = {
      ours: { server: platform, request: requestOf(`/v1/graphql/${rows.projectId}`, rows.anon, ourQuery) },
      reference: { server: reference, request: requestOf('/graphql', {}, theirQuery) },
    }
    const [ours, theirs] = await Promise.all(
      Object.values(sides).map(async ({ server, request }) =>
        namesIn(await sendOnce(server.url, request, 0)),
      ),
    )
    if (ours !== theirs || !ours!.startsWith('child 1,parent 1,')) throw new Error(`${ours} is not ${theirs}`)
    const compared = await compareThroughput(sides, {
      rounds: Number(given.rounds),
      seconds: roundSeconds,
      postmaster,
      file: rows.file,
    })
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
