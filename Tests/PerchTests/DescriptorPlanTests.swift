import Testing

@testable import perch

/// How the file descriptors are divided (B54).
@Suite struct DescriptorPlanTests {
  private let wanted = DescriptorPlan.Wanted(
    workers: 2, upstreamRequests: 4, connections: 24_000, parked: 20_000, parkedPerUser: 12_000)

  @Test("B54: where there are enough descriptors everything is as configured")
  func enough() {
    let plan = DescriptorPlan(limit: 65_536, open: 5, wanted)
    #expect(plan.connections == 24_000 && plan.parked == 20_000 && plan.parkedPerUser == 12_000)
    #expect(plan.isWhole(wanted))
  }

  @Test("B54: where there are fewer, the limits shrink, and connections stay for who does not wait")
  func fewer() {
    for limit in [120, 128, 256, 1024, 20_000] {
      let plan = DescriptorPlan(limit: limit, open: 5, wanted)
      #expect(plan.connections + plan.reserved == limit && plan.connections > 0)
      #expect(plan.parked < plan.connections && plan.parkedPerUser < plan.connections)
      #expect(!plan.isWhole(wanted))
    }
  }

  @Test("B54: parked requests are never more than connections, whatever is configured")
  func parked() {
    var few = wanted
    few.connections = 100
    let plan = DescriptorPlan(limit: 65_536, open: 5, few)
    #expect(plan.connections == 100 && plan.parked == 100 && plan.parkedPerUser == 100)
  }

  @Test("B54: the operators' connections are in the plan, and take a small part where there are few")
  func operators() {
    var both = wanted
    both.adminConnections = 64
    let plan = DescriptorPlan(limit: 65_536, open: 5, both)
    #expect(plan.adminConnections == 64)
    #expect(plan.reserved - DescriptorPlan(limit: 65_536, open: 5, wanted).reserved >= 64)
    for limit in [128, 256, 1024] {
      let plan = DescriptorPlan(limit: limit, open: 5, both)
      #expect(plan.connections + plan.reserved == limit && plan.connections > 0)
      #expect(plan.adminConnections >= 4 && plan.adminConnections <= limit / 16)
    }
  }

  @Test("a limit below what the process itself needs leaves none")
  func none() {
    #expect(DescriptorPlan(limit: 40, open: 5, wanted).connections == 0)
  }
}
