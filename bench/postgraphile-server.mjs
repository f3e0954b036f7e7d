// The reference of bench/graphql-postgraphile.ts, run where npm has installed PostGraphile: its plain Node server, as its
// manual describes, with the role of our anon key. The environment names the database.
import { createServer } from 'node:http'
import { postgraphile } from 'postgraphile'
import { makePgService } from 'postgraphile/adaptors/pg'
import { grafserv } from 'postgraphile/grafserv/node'
import { PostGraphileAmberPreset } from 'postgraphile/presets/amber'

const [port, poolSize] = process.argv.slice(2)

const instance = postgraphile({
  extends: [PostGraphileAmberPreset],
  pgServices: [makePgService({ schemas: ['public'], poolConfig: { max: Number(poolSize) } })],
  grafast: { context: () => ({ pgSettings: { role: 'anon' } }) },
  grafserv: { graphqlPath: '/graphql', graphiql: false, watch: false },
})
const server = createServer()
await instance.createServ(grafserv).addTo(server)
server.listen(Number(port), '127.0.0.1')
