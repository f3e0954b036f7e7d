import type { restApi } from '@plinth/contract/rest.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { RestService } from './service.ts'

export const restRoutes = (rest: RestService): Handlers<typeof restApi, Caller> => ({
  rootMethods: () => rest.rootMethods(),
  describe: (_input, caller) => rest.describe(caller),
  read: ({ params }, caller, request) => rest.read(caller, request, params.table),
  count: ({ params }, caller, request) => rest.read(caller, request, params.table),
  insert: ({ params }, caller, request) => rest.write(caller, request, params.table, 'insert'),
  put: ({ params }, caller, request) => rest.write(caller, request, params.table, 'put'),
  update: ({ params }, caller, request) => rest.write(caller, request, params.table, 'update'),
  remove: ({ params }, caller, request) => rest.write(caller, request, params.table, 'delete'),
  tableMethods: ({ params }, caller, request) => rest.tableMethods(caller, request, params.table),
  execSql: (_input, caller, request) => rest.execSql(caller, request),
  callByGet: ({ params }, caller, request) => rest.call(caller, request, params.function),
  callByHead: ({ params }, caller, request) => rest.call(caller, request, params.function),
  callMethods: ({ params }, caller, request) => rest.callMethods(caller, request, params.function),
  callByPost: ({ params }, caller, request) => rest.call(caller, request, params.function),
})
